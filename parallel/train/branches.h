// Branches: modules that have the same input and do not need each other, computed at the same time.
//
//     Branches block(Branches::Join::sum, main_path, shortcut);         children "0", "1", ...
//     Tensor y = block(x);                                              main_path(x) + shortcut(x)
//
//                 .-- branch 0 -- y0 --.                CPU: threads, which share the caller's OpenMP team
//     forward  x -+-- branch 1 -- y1 --+- join -- y     GPU: a stream each; the host queues branch after branch,
//                 '-- branch 2 -- y2 --'                     and the join waits by events
//
//     backward    the gradients of y0, y1, y2 go the same ways back, at the same time, each on a tape of the branch's
//                 own. All branches together are one operation on the caller's tape, and the join is an ordinary
//                 operator there: gradients arrive, and their hooks run, on the thread that called backward.
//
// At best this takes as long as the longest branch; it pays if a branch alone leaves processors idle. Whether it does
// is measured: with Mode::automatic the first passes go both ways, and then each direction keeps its faster one.
// report() says what was found.
//
// Guarantees:
//
//   Outputs, and gradients of parameters and of x, have the bits of the plain main_path(x) + shortcut(x). x's gradients
//   are added from the last branch to the first, as the tape does; a branch that uses x several times adds its own
//   contributions first.
//
//   They have them in all modes on GPUs, and on a CPU for equal OpenMP teams: in turn each branch has the caller's T
//   threads, side by side max(1, T / min(T, n)) of them for n branches. What depends on the team is how oneDNN adds up
//   some products, gradients of weights above all. Hence Mode::automatic, which goes by time, may differ from run to run
//   in their last bits on a CPU with T > 1; the other modes never do.
//
//   Random numbers: branch 0 draws from the caller's default generator, branch k from one of the same offset and a seed
//   made of the caller's and k (caller_state.h). So they differ between branches, and not between modes.
//
//   NoGrad, Autocast, the default device and current streams hold in branches as they do around them.
//
// In turn, whatever the mode: on the CPU with a team of one thread, since more would take other ranks' processors; and
// branches with layers that call other ranks (sync_batch_norm.h, tensor_parallel.h), since all must call in the same
// order. A module of your own that does so needs Mode::in_turn.
//
// What backward saves is kept until all branches have had their backward pass. Work on GPUs may be captured
// (core/capture.h); it is not measured then.
//
// REQUIRES: branches do not change x in place, and use nothing that is trained but x and their own parameters. One
// thread at a time calls a block, as any module. Branches may contain Branches, and ranks and replicas may.

#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/module.h"
#include "parallel/train/branch_runner.h"

namespace ringrad {

class Branches : public nn::Module {
 public:
  /// y0 + y1 + ..., or [y0 | y1 | ...] along axis 1, which is that of channels.
  enum class Join { sum, concatenate };
  using Mode = BranchMode;  ///< side_by_side, in_turn, or automatic

  /// The conversion notes the line.
  struct JoinAt {
    JoinAt(Join join, Where where = Where::current()) : join(join), where(where) {}
    Join join;
    Where where;
  };

  /// Throws as append().
  template <std::derived_from<nn::Module>... Modules>
  explicit Branches(JoinAt at, Modules... branches) : join_(at.join) {
    (append(std::move(branches), at.where), ...);
  }

  /// Adds a branch, named by its position or as told.
  ///
  /// Throws: ValueError for a name that is taken, or if it shares a parameter or buffer with another branch
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

  /// Throws: ValueError without a branch; ShapeError with all shapes if they cannot be joined; what a branch throws,
  ///         once all have ended, with "Branches: branch k (what it is): " before its message, the lowest k if several
  ///         do. Backward throws alike, and AutogradError with create_graph
  Tensor forward(const Tensor& x, Where where = Where::current()) override;

  /// The branches' results, not joined: for a join of another kind.
  std::vector<Tensor> outputs(const Tensor& x, Where where = Where::current());

  /// From the next pass on. A block is made with Mode::side_by_side.
  void set_mode(Mode mode);

  /// What was measured, per direction: the time in turn, side by side, and of the longest branch, how many times faster
  /// side by side is, and the way that follows. Only passes that record count. A way that was not gone is not known:
  /// Mode::automatic goes both. Times on simulated GPUs are simulated.
  std::string report() const;

  std::string describe() const override;

 private:
  static std::shared_ptr<struct BranchesState> make_state();
  /// Throws: ValueError if two of them share a tensor
  std::vector<std::vector<Tensor>> parameters_of_branches(Where where);
  bool has_collectives();
  void check_joinable(const std::vector<Tensor>& outputs, Where where) const;

  Join join_;
  std::shared_ptr<struct BranchesState> state_ = make_state();  // graphs hold on to it
};

}  // namespace ringrad
