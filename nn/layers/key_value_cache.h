// KeyValueCache: the keys and values of the tokens so far, which attention reads again for each
// token that follows. The first call allocates memory for `capacity` tokens, so that later calls
// write new tokens in place and copy no earlier ones.
//
//     token       0   1   2   3   4   5   ...   capacity
//     keys      | k   k   k   k | new   | unused          |
//                                         ^ length() after append()

#pragma once

#include <cstdint>

#include "ringrad/core/tensor.h"

namespace ringrad::nn {

class KeyValueCache {
 public:
  /// Throws ValueError unless capacity > 0.
  explicit KeyValueCache(std::int64_t capacity, Where where = Where::current());
  KeyValueCache(KeyValueCache&&) = default;  // copies would write to the same memory
  KeyValueCache& operator=(KeyValueCache&&) = default;

  struct KeysAndValues {
    Tensor keys, values;
  };

  /// Appends along T and returns all tokens so far, as views of the cache. Nothing is recorded.
  ///
  /// Shapes:  k (B, H, T, D), v (B, H, T, Dv)  ->  (B, H, length, D), (B, H, length, Dv)
  /// Throws:  ShapeError if the cache becomes too long; ShapeError, DTypeError or DeviceError
  ///          unless k and v agree in B, H, T, dtype and device, and all but T stay the same
  KeysAndValues append(const Tensor& k, const Tensor& v, Where where = Where::current());

  std::int64_t length() const { return length_; }
  /// Forgets all tokens after the first `length`, for example those of a call that failed later.
  /// Throws ValueError unless 0 <= length <= length().
  void truncate(std::int64_t length, Where where = Where::current());
  /// Forgets all tokens.
  void clear() { length_ = 0; }

 private:
  std::int64_t capacity_, length_ = 0;
  Tensor keys_, values_;  // (B, H, capacity, D), (B, H, capacity, Dv)
};

}  // namespace ringrad::nn
