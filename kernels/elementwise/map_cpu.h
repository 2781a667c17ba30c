// map: applies one function to the elements of up to three operands that broadcast to the shape of
// the output.
//
// A function is compiled only for consecutive elements of one C++ type (`Loop`). map arranges
// everything else around it. It visits the elements in the output's memory order, in blocks that
// fit in the first-level cache. An operand with another memory order or dtype is first read into a
// buffer.
//
//     out    (2, 3, 4)  dense          ->  written in place
//     a      (2, 3, 4)  same strides   ->  read in place
//     b      (3, 1)     float16        ->  buffer of float32   b0 b0 b0 b0 b1 b1 b1 b1 b2 b2 ...
//
// So an operator costs one vectorised loop per type; broadcasting, strides, dtype conversion and
// threads are written once, here. When all operands have the output's memory order, the loop runs
// over memory directly.

#pragma once

#include <cstdint>
#include <initializer_list>

#include "ringrad/core/dtype.h"
#include "ringrad/core/tensor.h"

namespace ringrad::kernels::cpu {

inline constexpr int kMaxOperands = 3;

/// out[i] = op(in[0][i], in[1][i], ...) for i in [0, n). `out` may be one of the operands.
using Loop = void (*)(const void* op, void* out, const void* const* in, std::int64_t n);

/// A loop and the element types that it was compiled for; never a 16-bit float.
struct Function {
  Loop loop;
  const void* op;
  DType in[kMaxOperands];
  DType out;
};

/// out = function(operands...), element by element.
///
/// REQUIRES: the operands broadcast to out's shape; math_dtype(out.dtype()) == function.out; no two
///           elements of out share one place in memory; if an operand overlaps out in memory, each
///           of its elements is the same element of out
void map(const Function& function, const Tensor& out,
         std::initializer_list<const Tensor*> operands);

}  // namespace ringrad::kernels::cpu
