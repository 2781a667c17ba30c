// Dropout: drops each element with probability p and scales the others so that the expected value
// stays the same.
//
//     y = x * mask / (1 - p),    mask = 1 with probability 1 - p, else 0
//
// The mask has one byte per element. bernoulli_() (core/random/random.h) draws it in row-major
// order of the elements, whatever their order in memory: a seed drops the same elements of a tensor
// in every layout, on CPUs and on GPUs.
//
// Paper: Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov 2014, JMLR 15

#pragma once

#include "ringrad/core/random/random.h"
#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// 1 / (1 - p), or 0 for p = 1, where no element is kept.
double dropout_scale(double p);

/// Throws DTypeError unless x is floating, ValueError unless 0 <= p <= 1.
void check_dropout(const Tensor& x, double p, Where where = Where::current());

/// A fresh mask, uint8, in the memory order of x if it is dense.
/// Throws:  as check_dropout
Tensor dropout_mask(const Tensor& x, double p, Generator& generator,
                    Where where = Where::current());

/// y = mask ? x * scale : 0.  A dropped element gives 0 even if it is NaN.
/// REQUIRES: mask is uint8 and has x's shape
Tensor apply_mask(const Tensor& x, const Tensor& mask, double scale,
                  Where where = Where::current());

namespace cpu {

// REQUIRES: all three are dense and have equal strides
void apply_mask(const Tensor& x, const Tensor& mask, double scale, const Tensor& y);

}  // namespace cpu

namespace cuda {

/// As cpu::apply_mask, for tensors on a GPU.
void apply_mask(const Tensor& x, const Tensor& mask, double scale, const Tensor& y, Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
