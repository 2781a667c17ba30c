// The kernels behind cross_entropy.h. Private to cross_entropy.cc.

#pragma once

#include "ringrad/kernels/loss/cross_entropy.h"

namespace ringrad::kernels::cuda {

// REQUIRES: as in namespace cpu, except that targets may be out of range: such targets count as
//           ignored, and check_indices has noted them.
void cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options,
                   const CrossEntropyResult& result, Where where);
void cross_entropy_backward(const Tensor& grad_output, const Tensor& logits, const Tensor& targets,
                            const CrossEntropyStatistics& statistics,
                            const CrossEntropyOptions& options, const Tensor& grad_logits,
                            Where where);
void cross_entropy_targets(const Tensor& targets, const CrossEntropyOptions& options,
                           const CrossEntropyTargets& result, Where where);

}  // namespace ringrad::kernels::cuda
