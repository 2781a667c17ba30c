// A tensor as it travels: 16-bit floats are added in float32. Private to transport_communicator.cc.

#pragma once

#include <cstddef>

#include "ringrad/core/tensor.h"
#include "ringrad/parallel/comm/blocks/reduce_terms.h"

namespace ringrad {

inline std::size_t bytes_in(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * size_bytes(tensor.dtype());
}

/// A tensor's elements as they travel; if they are added, in the dtype that carries them between
/// ranks.
class Carried {
 public:
  Carried(const Tensor& tensor, bool is_added)
      : tensor_(tensor),
        is_wide_(is_added &&
                 size_bytes(carrier_dtype(tensor.dtype())) != size_bytes(tensor.dtype())),
        elements_(is_wide_ ? empty(tensor.shape(),
                                   {.dtype = carrier_dtype(tensor.dtype()), .device = Device()})
                           : tensor) {}

  const Tensor& elements() const { return elements_; }
  DType dtype() const { return carrier_dtype(tensor_.dtype()); }
  std::byte* data() const { return elements_.raw_data(); }
  std::size_t bytes() const { return bytes_in(elements_); }
  void take() const {
    if (is_wide_) to_carrier(tensor_.dtype(), tensor_.raw_data(), data(), tensor_.numel());
  }
  void put_back() const {
    if (is_wide_) from_carrier(tensor_.dtype(), data(), tensor_.raw_data(), tensor_.numel());
  }

 private:
  const Tensor tensor_;
  const bool is_wide_;
  const Tensor elements_;
};

}  // namespace ringrad
