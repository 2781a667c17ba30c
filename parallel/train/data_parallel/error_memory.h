// ErrorMemory: what lossy compression of gradients has left out so far, to be sent with later
// gradients.
//
//     g_1 --(+)-- left --> compress --> sent            sum of sent + left = sum of g
//             ^                |
//             '---- left <-----'
//
// Nothing is lost, only delayed, and SGD converges at the rate of uncompressed SGD (Stich,
// Cordonnier, Jaggi 2018, arXiv:1809.07599; Karimireddy et al. 2019, arXiv:1901.09847).
//
// The memory is laid out like the gradients: one number for each element of the whole storage that
// a bucket is a slice of. It therefore stays valid when bucket boundaries change.

#pragma once

#include <utility>
#include <vector>

#include "ringrad/core/storage.h"
#include "ringrad/core/tensor.h"
#include "ringrad/nn/state_dict.h"

namespace ringrad {

/// Not thread-safe: one thread at a time.
class ErrorMemory {
 public:
  /// Adds gradients, a contiguous slice of their storage, to what was left of earlier ones there.
  /// The result is this memory's own slice, float32 or float64; a caller that sends a part of it
  /// must subtract that part.
  Tensor add(const Tensor& gradients, Where where);

  /// "left.0", "left.1" and so on, one for each storage in the order of its first gradients.
  nn::StateDict state() const;
  /// Throws: ValueError unless names are exactly those above
  static void check(const nn::StateDict& state, Where where);
  /// Replaces what was left of earlier gradients by copies of `state`, named as above.
  ///
  /// Throws: ValueError for other names; add() later throws ShapeError unless each storage has as
  ///         many elements
  void load(const nn::StateDict& state, Where where);

 private:
  const Tensor& left_of(const Tensor& gradients, Where where);

  // Each with the gradients' storage that it belongs to. The storage is kept, so that no other
  // storage can get its address.
  std::vector<std::pair<Ref<Storage>, Tensor>> left_;
  std::vector<Tensor> loaded_;  // for storages not seen yet, from number left_.size() on
};

}  // namespace ringrad
