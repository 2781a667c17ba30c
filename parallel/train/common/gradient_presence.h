// Which parameters have a gradient on any rank.
//
// A parameter that some ranks' losses reach has a gradient on every rank: the average, to which the
// other ranks contribute zeros. A parameter that no rank's loss reaches has no gradient, and
// optimizers leave it alone (nn/optimizer/optimizer.h). Ranks that average gradients therefore also
// tell each other which gradients they have. Optimizers leave frozen parameters alone too, so these
// must be the same on all ranks.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ringrad/nn/arena.h"
#include "ringrad/parallel/comm/communicator.h"

namespace ringrad {

/// 1 for each parameter that has a gradient on this rank, else 0.
///
/// Shapes:  (P), the arenas' parameters in order; uint8, on the CPU
Tensor gradient_presence(const std::vector<nn::ParameterArena>& arenas);

/// Makes each element the largest on any rank. All ranks call it.
void reduce_presence(const Tensor& presence, Communicator& comm, Where where);

/// Makes the arenas' contents the gradient of each parameter that is present and not frozen.
/// REQUIRES: the arenas are settled
void adopt_gradients(const std::vector<nn::ParameterArena>& arenas, const Tensor& presence);

/// The parameters that all ranks have frozen. A rank that freezes another one, or trains it again,
/// marks it in its presence, and then all ranks compare:
///
///     presence     rank 0   1 0 1       only such a pass costs a second message
///                  rank 1   1 0 2   --> all see the 2, and compare what is frozen
class FrozenParameters {
 public:
  /// Marks in this rank's presence what was frozen or trained again since the latest agree().
  void mark(const std::vector<nn::ParameterArena>& arenas, const Tensor& presence);

  /// True, on all ranks, if a rank has marked a parameter. `presence` has been reduced.
  static bool is_marked(const Tensor& presence);

  /// Compares what is frozen, and replaces the marks by presence. All ranks must call it if
  /// is_marked(). `name_of` names parameter i; `scheme` is the caller.
  ///
  /// Throws: CollectiveError on all ranks if a parameter is frozen on some of them only
  void agree(const char* scheme, const Tensor& presence,
             const std::function<std::string(std::size_t i)>& name_of, Communicator& comm,
             Where where);

 private:
  std::vector<std::uint8_t> own_;    // of this rank: 2 if frozen, else its presence
  std::vector<bool> agreed_frozen_;  // empty before the first agree(): none
};

}  // namespace ringrad
