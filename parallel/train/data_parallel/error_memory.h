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
#include "ringrad/parallel/train/data_parallel/hook_state.h"
#include "ringrad/parallel/train/data_parallel/reducer.h"

namespace ringrad {

/// Not thread-safe: one thread at a time.
class ErrorMemory final : public HookState {
 public:
  /// What was left of a bucket's earlier gradients, as a slice of this memory, float32 or float64.
  /// The caller writes into it what it does not send.
  Tensor left_of(const GradientBucket& bucket, Where where);

  /// "left.<parameter>" for each parameter that has been in a bucket, with one axis.
  nn::StateDict state() const override;
  /// Throws: ValueError unless names are like those above
  void check(const nn::StateDict& state, Where where) const override;
  /// Replaces what was left of earlier gradients by copies of `state`, named as above.
  ///
  /// Throws: ValueError for other names; left_of() later throws ShapeError unless each parameter
  ///         has as many elements
  void load(const nn::StateDict& state, Where where) override;

 private:
  const Tensor& all_of(const Tensor& gradients, Where where);

  // Each with the gradients' storage that it belongs to. The storage is kept, so that no other
  // storage can get its address.
  std::vector<std::pair<Ref<Storage>, Tensor>> left_;
  // By name: slices of these, and what was loaded for parameters that have not come yet.
  nn::StateDict parts_, loaded_;
};

}  // namespace ringrad
