// Replica: one rank's copy of a model that all ranks have. It begins as rank 0's, and what is trained of it lies in
// arenas (nn/arena.h), so that the whole model is a tensor or two to send, receive or reduce.
//
//     rank 0   values | conv.weight | conv.bias | fc.weight | ...      same places on all ranks
//     rank 1   values | conv.weight | conv.bias | fc.weight | ...

#pragma once

#include <vector>

#include "nn/arena.h"
#include "nn/module.h"
#include "parallel/comm/communicator.h"

namespace ringrad {

class Replica {
 public:
  /// Checks that all ranks hold the same parameters and buffers by name, shape and dtype, and gives all of them rank
  /// 0's values. All ranks call it, with the name of what asks for it.
  ///
  /// Throws: CollectiveError naming the ranks whose models differ
  Replica(const char* scheme, const nn::Module& module, Communicator& comm, Where where);

  /// What is trained, by dtype.
  const std::vector<nn::ParameterArena>& arenas() const { return arenas_; }

  /// Makes the arenas' gradients what the parameters' are.
  ///
  /// Throws: AutogradError for a parameter that was moved, or was frozen at first and is trained now: no arena has it
  void settle(Where where) const;

  /// The arenas' values are others now: saved tensors and views get to know.
  void mark_changed(Where where) const;

 private:
  const char* scheme_;
  std::vector<nn::ParameterArena> arenas_;
  std::vector<Tensor> frozen_;
};

}  // namespace ringrad
