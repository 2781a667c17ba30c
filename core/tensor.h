// Tensor: one pointer to {storage, offset, shape, strides, dtype, history}.
//
//     x   Tensor ---> TensorImpl { storage --> bytes, shape (2, 3), strides (3, 1), offset 0 }
//     xT  Tensor ---> TensorImpl { storage ----^      shape (3, 2), strides (1, 3), offset 0 }
//
// Copying a Tensor copies the pointer: both names mean the same tensor. Views share the storage. So
// `const Tensor` protects the name and not the numbers, as with std::shared_ptr: members that write
// are const, and code that only reads takes data<const float>().
// Many threads may read a tensor at once; the caller must order writes, as for any C++ object. A
// tensor that requires a gradient belongs to one thread, because recording writes to it.
//
// This header contains no calculus. Operators are free functions of higher layers (`matmul(a, b)`,
// `relu(x)`); the most used are members as well (tensor_methods.h). The members that concern
// gradients stand at the end of the class: they are declared here to give users the familiar
// syntax, and defined in autograd/tensor_autograd.cc. zeros(), tensor() and so on are in
// make_tensor.h.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"
#include "ringrad/core/base/shape.h"
#include "ringrad/core/dtype.h"
#include "ringrad/core/index.h"
#include "ringrad/core/make_tensor.h"
#include "ringrad/core/scalar.h"
#include "ringrad/core/storage.h"
#include "ringrad/core/tensor_impl.h"
#include "ringrad/core/tensor_methods.h"

namespace ringrad {

struct BackwardOptions {
  bool retain_graph = false;  ///< keep saved tensors, so that backward can run again
  /// Record the backward pass itself; implies retain_graph. A recorded grad() keeps the graph
  /// alive, and the graph keeps the leaf alive. Clear grad(), or use ringrad::grad(): otherwise
  /// none of them is ever freed.
  bool create_graph = false;
};

class Tensor : public TensorMethods {
 public:
  /// No tensor: defined() is false, and every other access throws ValueError.
  Tensor() = default;
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}

  bool defined() const { return static_cast<bool>(impl_); }

  /// Extents, strides in elements, number of axes and of elements.
  ///
  /// Throws:  ValueError for an undefined tensor, as do all functions that take a Where
  const Shape& shape(Where where = Where::current()) const { return get(where).shape; }
  const Strides& strides(Where where = Where::current()) const { return get(where).strides; }
  int dims(Where where = Where::current()) const { return get(where).shape.size(); }
  std::int64_t numel(Where where = Where::current()) const { return get(where).numel; }
  /// Extent of an axis; negative axes count from the end. Throws ShapeError for an absent axis.
  std::int64_t size(std::int64_t axis, Where where = Where::current()) const;
  DType dtype(Where where = Where::current()) const { return get(where).dtype; }
  Device device(Where where = Where::current()) const { return get(where).storage->device(); }
  /// The line of the call that made this tensor.
  const Where& made_at(Where where = Where::current()) const { return get(where).made_at; }

  /// True if the elements lie without gaps: contiguous in the order of the axes, channels_last in
  /// the order (B, H, W, C).
  bool is_contiguous(Where where = Where::current()) const { return get(where).contiguous; }
  bool is_channels_last(Where where = Where::current()) const {
    return ringrad::is_channels_last(shape(where), strides(where));
  }

  /// x[i] is select(x, 0, i): one position of the first axis, as a view. Throws ShapeError without
  /// axes, IndexError outside the axis. Defined in autograd/movement.cc.
  Tensor operator[](LocatedIndex index) const;
  /// x[{1, Slice(0, 5), kNewAxis, kEllipsis}] (index.h): a view; with a tensor or a negative step
  /// among the indices, a copy (autograd/index/brackets.h). Throws ShapeError for more indices than
  /// axes or two kEllipsis, ValueError for a step of 0; as select() and slice().
  Tensor operator[](LocatedIndices indices) const;

  /// First element: data<float>(), or data<const float>() to read only. Code that writes must call
  /// mark_changed(), so that backward refuses a saved tensor whose numbers are no longer those of
  /// the forward pass.
  ///
  /// Throws:  DTypeError if T is not the tensor's element type; DeviceError for a GPU's memory,
  ///          which the host cannot read: to_vector() and to_host() (transfer.h) copy it, and
  ///          kernels take device_data()
  template <class T>
  T* data(Where where = Where::current()) const {
    T* const first = device_data<T>(where);
    if (!device(where).is_cpu()) [[unlikely]]
      throw_not_on_host(where);
    return first;
  }
  /// The same on any device, for launches and copies. The host must not dereference an address on a
  /// GPU.
  template <class T>
  T* device_data(Where where = Where::current()) const {
    constexpr DType asked = dtype_of<std::remove_const_t<T>>;
    if (asked != dtype(where)) [[unlikely]]
      throw_wrong_type(asked, where);
    return reinterpret_cast<T*>(raw_data());
  }
  /// device_data() as bytes of any element type.
  std::byte* raw_data(Where where = Where::current()) const {
    const TensorImpl& impl = get(where);
    return impl.storage->data() + impl.offset * static_cast<std::int64_t>(size_bytes(impl.dtype));
  }

  /// The value of a one-element tensor, converted to T: integers take its whole part. Throws
  /// ShapeError for any other number of elements, ValueError if an integer T cannot hold the value.
  template <class T = float>
  T item(Where where = Where::current()) const {
    return scalar(where).to<T>(where);
  }
  Scalar scalar(Where where = Where::current()) const;

  /// All elements in row-major order, converted to T. Throws ValueError as item() does.
  template <class T>
  std::vector<T> to_vector(Where where = Where::current()) const;

  /// The memory, which views share, and the first element's distance from its beginning, in
  /// elements.
  const Ref<Storage>& storage(Where where = Where::current()) const { return get(where).storage; }
  std::int64_t offset(Where where = Where::current()) const { return get(where).offset; }
  /// Null for an undefined tensor.
  TensorImpl* impl() const { return impl_.get(); }
  /// True if both names mean the same tensor object.
  bool is(const Tensor& other) const { return impl_ == other.impl_; }

  /// Another number after each in-place change of the memory under this tensor and its views.
  std::uint32_t version(Where where = Where::current()) const { return storage(where)->version(); }
  /// Counts a change. Every writer calls this, before or after it writes, so that no writer escapes
  /// the checks of check_writable(). An optimizer's writes, which are never recorded, are
  /// counted by storage()->mark_changed().
  void mark_changed(Where where = Where::current()) const {
    check_writable("mark_changed", where);
    storage(where)->mark_changed(where);
  }
  /// What every in-place operation checks before it writes into its caller's tensor. Throws
  /// AutogradError if this tensor requires a gradient while operations are recorded: the change
  /// would not be in its history. Throws ValueError if two elements share one place in memory.
  void check_writable(const char* operation, Where where) const;
  /// The first of the two checks, for operations that write one value to all elements.
  void check_unrecorded(const char* operation, Where where) const;

  /// Makes this tensor object, under all its names, refer to other memory of the same shape and
  /// dtype; it stays the same leaf. This moves parameters into an arena or to another device.
  void set_data(const Tensor& data, Where where = Where::current()) const;

  // -- Gradients: defined in autograd/tensor_autograd.cc, link with //autograd ------------------

  /// True for a leaf that wants a gradient and for every result computed from one.
  bool requires_grad(Where where = Where::current()) const { return get(where).requires_grad; }
  /// Throws DTypeError unless floating, AutogradError on a tensor that is not a leaf. Returns this
  /// tensor.
  Tensor set_requires_grad(bool requires_grad = true, Where where = Where::current()) const;
  /// True if no recorded operation made this tensor.
  bool is_leaf(Where where = Where::current()) const;
  /// The gradient accumulated in this leaf; an undefined tensor if there is none yet. Backward
  /// passes add to it in place. After zero_grad() of an optimizer or a module, the returned tensor
  /// and its views keep their values; arrays of other libraries may show the next gradient
  /// (optimizer.h).
  Tensor grad(Where where = Where::current()) const;
  /// Sets the gradient; an undefined tensor drops it. Throws AutogradError unless this is a leaf
  /// that requires a gradient, and if `grad` is the leaf itself; ShapeError, DTypeError or
  /// DeviceError unless `grad` is like it.
  void set_grad(const Tensor& grad, Where where = Where::current()) const;
  /// Drops the gradient, so that the next backward pass begins at 0. Throws AutogradError unless
  /// this is a leaf that requires a gradient.
  void zero_grad(Where where = Where::current()) const { set_grad(Tensor(), where); }
  /// Adds d(this)/d(leaf) to every leaf's grad(). `gradient` weighs the elements of this tensor; it
  /// defaults to 1 for a one-element tensor. Throws AutogradError if there is no history, or on a
  /// second backward through freed history; ShapeError if the gradient is missing or has another
  /// shape.
  void backward(const Tensor& gradient = {}, BackwardOptions options = {},
                Where where = Where::current()) const;
  /// The same memory without history.
  Tensor detach(Where where = Where::current()) const;

 private:
  TensorImpl& get(Where where) const {
    if (!impl_) [[unlikely]]
      throw_undefined(where);
    return *impl_;
  }
  [[noreturn]] static void throw_undefined(Where where);
  [[noreturn]] void throw_wrong_type(DType asked, Where where) const;
  [[noreturn]] void throw_not_on_host(Where where) const;

  friend Index;  // keeps a tensor of positions alive
  Ref<TensorImpl> impl_;
};

inline Index::Index(const Tensor& positions) : kind(Kind::tensor), tensor(positions.impl_) {}
inline LocatedIndices::LocatedIndices(const Tensor& positions, Where at)
    : only(positions), indices(&only, 1), where(at) {}

/// Prints values the way NumPy and PyTorch do, long tensors summarised with "...".
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

/// A tensor argument of an operator symbol. An operator symbol cannot take a defaulted Where, so
/// the implicit conversion notes the line.
struct Located {
  Located(const Tensor& operand, Where at = Where::current()) : tensor(operand), where(at) {
    tensor.dtype(where);  // throws here, where the line is known, if undefined
  }
  const Tensor& tensor;
  Where where;
};

/// The checks of dtype.h and device.h, for tensors. They throw ValueError for an undefined tensor.
inline void check_floating(const char* operation, const Tensor& x, Where where) {
  check_floating(operation, x.dtype(where), where);
}

/// The dtype of an operation on these tensors, as in PyTorch. A tensor without axes counts like a
/// number: beside tensors with axes, its dtype matters only if it is of a higher class (bool <
/// integers < floats). So float16 (2,) with float32 () gives float16, and int32 (2,) with float64
/// () gives float64. Within each of the two groups, promote() of dtype.h decides.
DType promote(std::initializer_list<const Tensor*> operands);
inline DType promote(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() ? a.dtype() : promote({&a, &b});
}

/// Throws DTypeError unless a and b have the same dtype.
inline void check_same_dtype(const char* operation, const Tensor& a, const Tensor& b, Where where) {
  check_same_dtype(operation, a.dtype(where), b.dtype(where), where);
}
/// Throws DeviceError unless a and b are on the same device.
inline void check_same_device(const char* operation, const Tensor& a, const Tensor& b,
                              Where where) {
  check_same_device(operation, a.device(where), b.device(where), where);
}

}  // namespace ringrad
