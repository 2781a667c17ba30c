// Attention composed of recorded operators, with all scores in memory: for the gradient of a mask,
// and for gradients of gradients. Private to autograd/attention.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/attention/attention.h"

namespace ringrad {

/// The same result as scaled_dot_product_attention.
/// Throws:  CudaError while a Capture records, if probabilities are dropped
Tensor composed_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionOptions& options, const kernels::AttentionProblem& problem,
                          const kernels::AttentionDropout& dropout, Where where);

/// Its gradients, as functions that can be differentiated again.
kernels::AttentionGradients composed_attention_gradients(const Tensor& grad_output, const Tensor& q,
                                                         const Tensor& k, const Tensor& v,
                                                         const AttentionOptions& options,
                                                         const kernels::AttentionProblem& problem,
                                                         const kernels::AttentionDropout& dropout,
                                                         Where where);

}  // namespace ringrad
