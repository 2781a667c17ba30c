// Making tensors: zeros({2, 3}), tensor({{1., 2.}, {3., 4.}}), arange(5), ...
//
// Random ones are in random.h; those over other libraries' memory in dlpack.h.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"
#include "ringrad/core/base/shape.h"
#include "ringrad/core/dtype.h"
#include "ringrad/core/scalar.h"
#include "ringrad/core/values.h"

namespace ringrad {

class Tensor;  // tensor.h, which includes this header

/// The properties of a new tensor, for designated initialisers:
///
///     zeros({2, 3}, {.dtype = DType::float64})
struct Options {
  DType dtype = DType::float32;
  Device device = default_device();
  Layout layout = Layout::contiguous;
  bool requires_grad = false;
};

/// Uninitialised. With requires_grad the result is a leaf.
/// Throws ShapeError for negative or too large extents, or channels_last without 4 axes; DTypeError
/// for requires_grad unless floating; OutOfMemoryError.
Tensor empty(const Shape& shape, const Options& options = {}, Where where = Where::current());
/// Filled with 0; otherwise as empty().
Tensor zeros(const Shape& shape, const Options& options = {}, Where where = Where::current());
/// Filled with 1; otherwise as empty().
Tensor ones(const Shape& shape, const Options& options = {}, Where where = Where::current());
/// Filled with a value; otherwise as empty().
Tensor full(const Shape& shape, Scalar value, const Options& options = {},
            Where where = Where::current());

/// Uninitialised, with x's shape, dtype, device and, if x is dense, its axis order in memory.
Tensor empty_like(const Tensor& x, Where where = Where::current());
/// The same with another dtype.
Tensor empty_like(const Tensor& x, DType dtype, Where where = Where::current());

/// The same, filled with 0.
Tensor zeros_like(const Tensor& x, Where where = Where::current());
/// The same, filled with 1.
Tensor ones_like(const Tensor& x, Where where = Where::current());
/// The same, filled with a value.
Tensor full_like(const Tensor& x, Scalar value, Where where = Where::current());

/// start, start + step, ... before end: int64 if all three are whole numbers, else float32.
/// Throws ValueError unless steps lead from start to end.
Tensor arange(Scalar start, Scalar end, Scalar step = 1, Where where = Where::current());
Tensor arange(Scalar end, Where where = Where::current());

/// `steps` numbers from start to end, both included, at equal distances. Options as in empty();
/// integer dtypes round towards zero.
/// Throws ValueError for negative steps, and for a number that an integer dtype cannot hold.
Tensor linspace(Scalar start, Scalar end, std::int64_t steps, const Options& options = {},
                Where where = Where::current());
/// base^x for the numbers x of linspace; throws as linspace does.
Tensor logspace(Scalar start, Scalar end, std::int64_t steps, double base = 10,
                const Options& options = {}, Where where = Where::current());

/// The identity matrix (n, n).
Tensor eye(std::int64_t n, const Options& options = {}, Where where = Where::current());

/// A copy of values on the default device. Throws ShapeError unless shape holds values.size()
/// elements.
template <class T>
Tensor from_values(std::span<const T> values, const Shape& shape, Where where = Where::current());

/// tensor({1, 2}) and tensor({{1.5, 2}, {3, 4}}): numbers in lists, nested to any depth.
///
/// DTypes:  as in PyTorch: float32 if any number is floating or if there is none, else int64 if any
///          is an integer, else bool; or the given one
/// Throws:  ShapeError unless all lists of one depth are equally long
Tensor tensor(const Values& values, Where where = Where::current());
Tensor tensor(const Values& values, DType dtype, Where where = Where::current());
/// One axis; the dtype is that of T.
template <class T>
Tensor tensor(const std::vector<T>& values, Where where = Where::current());

/// A one-element tensor of shape ().
Tensor scalar_tensor(Scalar value, const Options& options = {}, Where where = Where::current());

/// A tensor over the caller's memory, in the given layout without gaps; `owner` keeps the memory
/// alive. Elements of bool must be the bytes 0 and 1.
/// REQUIRES: `data` holds as many elements as the shape
/// Throws:   ValueError unless `data` is aligned for its dtype
Tensor from_memory(void* data, const Shape& shape, const Options& options,
                   std::shared_ptr<void> owner, Where where = Where::current());

/// Throws DataError if an element of x, a bool tensor on the CPU, is another byte than 0 and 1. For
/// memory that other code has filled: other libraries take any such byte for true, but here a sum
/// would add the byte's value.
void check_truth_values(const char* operation, const Tensor& x, Where where);

}  // namespace ringrad
