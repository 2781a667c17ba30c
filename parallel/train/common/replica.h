// Replica: one rank's copy of a model that all ranks have. It starts as a copy of rank 0's model.
// Its trained parameters lie in arenas (nn/arena.h), so the whole model is one or two
// tensors to send, receive or reduce.
//
//     rank 0   values | conv.weight | conv.bias | fc.weight | ...      same places on all ranks
//     rank 1   values | conv.weight | conv.bias | fc.weight | ...

#pragma once

#include <cstdint>
#include <vector>

#include "ringrad/nn/arena.h"
#include "ringrad/nn/module.h"
#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/train/common/known_parameters.h"

namespace ringrad {

class Replica {
 public:
  /// Checks that all ranks hold the same parameters and buffers by name, shape and dtype, and gives
  /// all of them rank 0's values. All ranks must call it; `scheme` names the caller in messages.
  ///
  /// REQUIRES: the module outlives it
  /// Throws:   CollectiveError naming the ranks whose models differ
  Replica(const char* scheme, const nn::Module& module, Communicator& comm, Where where);

  /// The purpose of the model's calls (comm/common/call_purpose.h).
  std::uint16_t purpose() const { return purpose_; }

  /// The trained parameters, by dtype.
  const std::vector<nn::ParameterArena>& arenas() const { return arenas_; }

  /// Makes the arenas' gradients equal to the parameters'.
  ///
  /// Throws: AutogradError for a parameter that was moved, that was frozen at first and is trained
  ///         now, or that was added: no arena has it
  void settle(Where where) const;

  /// Records that the arenas' values have changed, for saved tensors and views.
  void mark_changed(Where where) const;

 private:
  std::uint16_t purpose_ = 0;
  std::vector<nn::ParameterArena> arenas_;
  KnownParameters parameters_;
};

}  // namespace ringrad
