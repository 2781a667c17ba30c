// Attention by cuDNN's fused kernels, for 16-bit floats. Private to kernels/.

#pragma once

#include "ringrad/kernels/library/cudnn_graph.h"
#include "ringrad/kernels/problem/attention_call.h"

namespace ringrad::kernels::cudnn {

/// The forward pass, or the gradients with sums in a fixed order, on the device's current stream.
/// Returns false, having done nothing, if cuDNN has no engine for the call, or unless all of this
/// holds:
///
///     float16 or bfloat16; D and Dv are 8, 16, ... or 128; T and S at least 2
///     no mask, window or dropout; causal only if queries and keys begin together
///     columns side by side, and other strides positive multiples of 8 in q, k, v and grad_output
///     the shapes and strides are among the first 128 different ones of the process
///
/// REQUIRES: missing() is empty
bool attention(const AttentionForward& call, Where where);
bool attention_backward(const AttentionBackward& call, Where where);

/// Graphs for the shapes and strides of a call's tensors, whatever their device. architecture: 90
/// for sm_90; -1 for that of the current GPU.
Graph attention_graph(const AttentionForward& call, int architecture = -1);
Graph attention_backward_graph(const AttentionBackward& call, int architecture = -1);

}  // namespace ringrad::kernels::cudnn
