// SavedTensor: a tensor kept for backward. Reading it throws if its memory has since been modified
// in place.
//
//     x = ...            version 0
//     y = square(x)      saves x at version 0
//     add_(x, 1)         version 1
//     sum(y).backward()  AutogradError: "backward of square: the tensor ... saved at model.cc:12
//                        must not change before backward; it was changed in place at train.cc:40"
//
// A version is set by whatever writes through Ringrad, and not by writes through a pointer that
// data() has returned (Tensor::mark_changed()).
//
// An output is saved without its history, because its history owns the node, and the node would own
// the output.

#pragma once

#include <cstdint>

#include "ringrad/core/tensor.h"

namespace ringrad {

class SavedTensor {
 public:
  SavedTensor() = default;

  bool defined() const { return tensor_.defined(); }
  const Shape& shape() const { return tensor_.shape(); }

  /// The tensor as it was when saved. Call this inside the backward function only; the reference is
  /// valid until that function returns.
  /// Throws AutogradError if the tensor has been changed in place since.
  const Tensor& get() const;

 private:
  friend SavedTensor save(const Tensor& input);
  friend SavedTensor save_output(const Tensor& output, int index);

  SavedTensor(Tensor tensor, int output)
      : tensor_(std::move(tensor)),
        version_(tensor_.defined() ? tensor_.version() : 0),
        output_(output) {}

  Tensor tensor_;
  std::uint32_t version_ = 0;
  int output_ = -1;  // output number within the node; -1 for an input
};

namespace detail {

/// A period in which tensors must not have changed, and the call that requires this.
struct QuietTime {
  std::uint64_t after, until;  ///< Storage::num_changes() at its begin and its end
  const char* operation;
  Where where;
};

/// While it is set, this thread's operators refuse operands that were changed in that time.
inline thread_local const QuietTime* quiet_time = nullptr;

/// Throws AutogradError if x, which may be undefined, was changed in the quiet time.
void check_quiet(const Tensor& x);

}  // namespace detail

/// Keeps an input of the operation. An undefined tensor stays undefined.
SavedTensor save(const Tensor& input);

/// Keeps an input if the gradient computed from it is wanted: a product saves a factor only if the
/// other factor requires a gradient. An input that is not saved takes no memory and may be changed
/// in place.
inline SavedTensor save_if(bool is_wanted, const Tensor& input) {
  return is_wanted ? save(input) : SavedTensor();
}

/// Keeps a result of the operation: its output number `index`.
SavedTensor save_output(const Tensor& output, int index = 0);

}  // namespace ringrad
