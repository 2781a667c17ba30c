// The loss of a language model from its features, without a tensor of all scores.

#pragma once

#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/core/tensor.h"

namespace ringrad {

/// cross_entropy(linear(x, linear_weight, linear_bias), targets, options), in less memory: with a
/// large vocabulary the scores (N, V), and as many gradients, are the largest tensors of a training
/// step. Here they exist for a few rows at a time, so many that they are about as large as x:
///
///   rows of x          |-- chunk --|-- chunk --| ...
///   scores             x_c W^T + b                    (chunk, V), overwritten by the next chunk
///   gradients          g = W p - q, then g W for x_c, and += g^T x_c for the weight
///
/// The loss of a chunk and its gradients are computed together in the forward pass, and scaled by
/// grad_output in the backward pass: three products, as many as for separate operators. With
/// Reduction::none each row has its own grad_output, so the backward pass computes the scores
/// again. Gradients that are recorded (create_graph) compose operators on all scores.
///
/// Extents: N rows, D features, V classes.
///
/// Shapes:  x (N, D), linear_weight (V, D), targets (N), linear_bias (V), which may be undefined
///          ->  () or, without a reduction, (N)
/// DTypes:  every floating dtype; 16-bit scores become float32, and so do sums over chunks
/// Saves:   x, linear_weight, targets, and the gradients of the inputs that require one
/// Throws:  ShapeError, DTypeError, DeviceError, IndexError, ValueError, AutogradError as linear
///          and cross_entropy
/// Paper:   gradients in the forward pass: Hsu et al. 2024, arXiv:2410.10989, section 3.2;
///          recomputed scores: Wijmans et al. 2024, arXiv:2411.09009
Tensor linear_cross_entropy(const Tensor& x, const Tensor& linear_weight, const Tensor& targets,
                            const Tensor& linear_bias = {}, const CrossEntropyOptions& options = {},
                            Where where = Where::current());

}  // namespace ringrad
