// TiedParameters: parameters of several stages of a pipeline that are one and the same, such as an embedding and the
// last layer's weight.
//
//     rank 0   embedding --.                      the lowest rank's value on all;
//     rank 3   weight -----+-- all_reduce sum     after each step the sum of all gradients, so optimizers change all alike
//
// Each tie has a group of its own, of the ranks that hold one of its parameters.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/module.h"
#include "parallel/comm/communicator.h"

namespace ringrad {

/// A parameter of a stage, by its name in the stage's state_dict().
struct StageParameter {
  int stage = 0;
  std::string name;
};

/// The ties that are given, and those of parameters that several of the stages have together, as one tensor. Stages that
/// are null have none.
///
/// Throws: ValueError for a parameter in two ties
std::vector<std::vector<StageParameter>> all_ties(
    const std::vector<std::vector<StageParameter>>& given, const std::vector<nn::Module*>& stages,
    Where where);

class TiedParameters {
 public:
  /// Stage s is on rank s mod world_size. All ranks call it, with the same ties; those of other ranks' stages are not
  /// looked at. Ties that are frozen stay as they are. Gives all of a tie the value that its lowest rank has.
  ///
  /// Throws: ValueError for a tie of fewer than two, a stage that is not there, or a name that a stage does not have, or
  ///         two tensors of one rank; CollectiveError unless all of a tie are alike
  TiedParameters(const std::vector<std::vector<StageParameter>>& ties,
                 const std::vector<nn::Module*>& stages, Communicator& comm, Where where);

  /// Gradients that all of a tie have already count once in the next sum.
  void begin_step() const;
  /// Gives all of a tie the sum of their gradients. All ranks call it.
  void add_gradients(Where where) const;

  /// True for a parameter that a lower rank has, too.
  bool is_repeated(const Tensor& parameter) const;

  /// Breaks the groups.
  void abort(const std::string& reason) const noexcept;

 private:
  struct Tie {
    Tensor parameter;
    std::unique_ptr<Communicator> group;
  };
  std::vector<Tie> ties_;  // that this rank has a part in, with others
};

}  // namespace ringrad
