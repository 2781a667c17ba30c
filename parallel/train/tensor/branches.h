// Branches: modules that have the same input and do not need each other, computed at the same time.
//
//     Branches block(Branches::Join::sum, main_path, shortcut);         children "0", "1", ...
//     Tensor y = block(x);                                              main_path(x) + shortcut(x)
//
//                 .-- branch 0 -- y0 --.             CPU: threads that share the caller's team
//     forward  x -+-- branch 1 -- y1 --+- join -- y  GPU: a stream each; the host queues them in
//                 '-- branch 2 -- y2 --'             turn, and the join waits by events
//
//     backward    the gradients of y0, y1, y2 go the same ways back, at the same time, each on a
//                 tape of the branch's own. The caller's tape holds all branches as one operation,
//                 and the join as an ordinary operator: gradients arrive, and their hooks run, on
//                 the thread that called backward.
//
// At best this takes as long as the longest branch; it pays if a branch alone leaves processors
// idle. With Mode::automatic the first passes measure both ways, and each direction then keeps its
// faster one. report() prints the result.
//
// Guarantees:
//
//   Outputs, and gradients of parameters and of x, have the bits of the plain main_path(x) +
//   shortcut(x). The gradients of x are added from the last branch to the first, as the tape does;
//   a branch that uses x several times adds its own contributions first.
//
// README.md says more: "Branches: bits and random numbers".

#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/nn/module.h"
#include "ringrad/parallel/train/tensor/branch_runner.h"

namespace ringrad {

/// Two cases always run in turn: on the CPU with a team of one thread, since more threads would
/// take other ranks' processors; and branches whose layers call other ranks (sync_batch_norm.h,
/// tensor_parallel.h), since all ranks must call in the same order. A module of your own that calls
/// other ranks needs Mode::in_turn.
///
/// What backward saves is kept until all branches have had their backward pass. Work on GPUs may be
/// captured (core/capture.h), but is not measured then.
///
/// REQUIRES: branches do not change x in place, and use no trained tensors but x and their own
///           parameters. One thread at a time calls a block, as with any module. Branches may
///           contain Branches, and may be part of ranks and replicas.
class Branches : public nn::Module {
 public:
  /// y0 + y1 + ..., or [y0 | y1 | ...] along axis 1, the axis of channels.
  enum class Join { sum, concatenate };
  using Mode = BranchMode;  ///< side_by_side, in_turn, or automatic

  /// Converts from a Join and records the caller's line.
  struct JoinAt {
    JoinAt(Join how, Where at = Where::current()) : join(how), where(at) {}
    Join join;
    Where where;
  };

  /// Throws as append().
  template <std::derived_from<nn::Module>... Modules>
  explicit Branches(JoinAt at, Modules... branches) : join_(at.join) {
    (append(std::move(branches), at.where), ...);
  }

  /// Adds a branch, named `name`, by default its position.
  ///
  /// Throws: ValueError for a name that is taken, or if it shares a parameter or buffer with
  ///         another branch
  template <std::derived_from<nn::Module> M>
  M& append(M branch, Where where = Where::current()) {
    return append(std::to_string(num_children()), std::move(branch), where);
  }
  template <std::derived_from<nn::Module> M>
  M& append(const std::string& name, M branch, Where where = Where::current()) {
    M& added = child(name, std::move(branch), where);
    parameters_of_branches(where);
    return added;
  }

  /// Throws: ValueError without a branch; ShapeError with all shapes if they cannot be joined. If
  ///         branches throw: once all have ended, the error of the lowest branch that threw, with
  ///         "Branches: branch k (what it is): " before its message. Backward throws alike, and
  ///         AutogradError with create_graph
  Tensor forward(const Tensor& x, Where at = Where::current()) override;

  /// The branches' results, not joined, for another kind of join.
  std::vector<Tensor> outputs(const Tensor& x, Where where = Where::current());

  /// Takes effect from the next pass on. The initial mode is Mode::side_by_side.
  void set_mode(Mode mode);

  /// The measurements, per direction: the time in turn, side by side, and of the longest branch;
  /// the speed-up of side by side; and the resulting choice. Only passes that record count. A way
  /// that was never tried has no time; Mode::automatic tries both. Times on simulated GPUs are
  /// simulated.
  std::string report() const;

  std::string describe() const override;

 private:
  static std::shared_ptr<struct BranchesState> make_state();
  /// Throws: ValueError if two of them share a tensor
  std::vector<std::vector<Tensor>> parameters_of_branches(Where where);
  bool has_collectives();
  void check_joinable(const std::vector<Tensor>& outputs, Where where) const;

  Join join_;
  std::shared_ptr<struct BranchesState> state_ = make_state();  // recorded graphs keep it alive
};

}  // namespace ringrad
