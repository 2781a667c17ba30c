// ErrorMemory: what lossy compression of gradients has left out so far, to be sent with later ones.
//
//     g_1 --(+)-- left --> compress --> sent            sum of sent + left = sum of g
//             ^                |
//             '---- left <-----'
//
// So nothing is lost, only late, and SGD converges at the rate of the uncompressed one (Stich, Cordonnier, Jaggi 2018,
// arXiv:1809.07599; Karimireddy et al. 2019, arXiv:1901.09847).
//
// It lies like the gradients: one number for each element of the whole storage that a bucket is a slice of. So it stays
// right when buckets are cut anew.

#pragma once

#include <utility>
#include <vector>

#include "core/storage.h"
#include "core/tensor.h"
#include "nn/state_dict.h"

namespace ringrad {

/// For one thread at a time.
class ErrorMemory {
 public:
  /// Adds gradients, a contiguous slice of their storage, to what was left of earlier ones there. The result is this
  /// memory's own slice of float32 or float64: whoever sends a part of it takes that part away.
  Tensor add(const Tensor& gradients, Where where);

  /// "left.0", "left.1" and so on, one for each storage in the order of its first gradients.
  nn::StateDict state() const;
  /// Throws: ValueError unless names are as above, without others
  static void check(const nn::StateDict& state, Where where);
  /// What was left of earlier gradients; names as above, and no others. Copies are taken.
  ///
  /// Throws: ValueError for other names. In add() afterwards: ShapeError unless storages have as many elements
  void load(const nn::StateDict& state, Where where);

 private:
  const Tensor& left_of(const Tensor& gradients, Where where);

  // With the gradients' storage that each belongs to, which is kept, so that no other gets its address.
  std::vector<std::pair<Ref<Storage>, Tensor>> left_;
  std::vector<Tensor> loaded_;  // for storages that have not come yet, from number left_.size() on
};

}  // namespace ringrad
