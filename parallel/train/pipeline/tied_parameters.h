// TiedParameters: parameters of several stages of a pipeline that are one and the same, such as an
// embedding and the last layer's weight.
//
//     rank 0   embedding --.                      all start with the lowest rank's value; after
//     rank 3   weight -----+-- all_reduce sum     each step all get the sum of all gradients, so
//                                                 optimizers change all alike
//
// Each tie has a group of its own, of the ranks that hold one of its parameters.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ringrad/nn/module.h"
#include "ringrad/parallel/comm/communicator.h"

namespace ringrad {

/// A parameter of a stage, by its name in the stage's state_dict().
struct StageParameter {
  int stage = 0;
  std::string name;
};

/// The given ties, and those of tensors that several of the stages share. Null stages have none.
///
/// Throws: ValueError for a parameter in two ties
std::vector<std::vector<StageParameter>> all_ties(
    const std::vector<std::vector<StageParameter>>& given, const std::vector<nn::Module*>& stages,
    Where where);

class TiedParameters {
 public:
  /// Stage s is on rank s mod world_size. All ranks must call it with the same ties; stages of
  /// other ranks are not inspected. Frozen ties are left alone. Gives all members of a tie the
  /// value on its lowest rank.
  ///
  /// Throws: ValueError for a tie of fewer than two, a stage that does not exist, a name that a
  ///         stage does not have, or two tensors on one rank; CollectiveError unless all members of
  ///         a tie are alike
  TiedParameters(const std::vector<std::vector<StageParameter>>& ties,
                 const std::vector<nn::Module*>& stages, Communicator& comm, Where where);

  /// Makes gradients that all members of a tie already have count only once in the next sum.
  void begin_step() const;
  /// Gives all members of a tie the sum of their gradients. All ranks must call it.
  void add_gradients(Where where) const;

  /// True for a parameter that a lower rank has as well.
  bool is_repeated(const Tensor& parameter) const;

  /// Aborts the groups.
  void abort(const std::string& reason) const noexcept;

 private:
  struct Tie {
    Tensor parameter;
    bool is_trained;
    std::unique_ptr<Communicator> group;
  };
  std::vector<Tie> ties_;  // those that this rank shares with others
};

}  // namespace ringrad
