// ShardedOptimizer: data parallel training in which each rank keeps only its part of the
// optimizer's state (ZeRO, stage 1).
//
//     nn::Sequential net = ...;                       used in place of DistributedDataParallel:
//     ShardedOptimizer optimizer(net, comm, [](const std::vector<Tensor>& p) {
//       return std::make_unique<nn::Adam>(p);
//     });
//     for (...) {
//       loss(net(x)).backward();                      this rank's part of the batch; sends nothing
//       optimizer.clip_grad_norm(1.0);                if wanted
//       optimizer.step();
//     }
//
// Guarantee: all replicas start from rank 0's values, which the constructor broadcasts, and hold
// identical bits after every step. While sums are canonical (plan/collective/sum_order.h), these
// are the bits of DistributedDataParallel with an optimizer on every rank, since optimizers treat
// each element by itself. After clip_grad_norm they agree up to the rounding of the norm, whose
// squares are added in another order.
//
// README.md says more: "ShardedOptimizer: parts".
//
// Paper: Rajbhandari, Rasley, Ruwase, He 2020, "ZeRO: memory optimizations toward training trillion
// parameter models", arXiv:1910.02054, section 5.1 (P_os)

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ringrad/nn/module.h"
#include "ringrad/nn/optimizer/optimizer.h"
#include "ringrad/nn/optimizer/partial_gradients.h"
#include "ringrad/nn/state_dict.h"
#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/train/common/gradient_presence.h"
#include "ringrad/parallel/train/common/known_parameters.h"

namespace ringrad {

class Replica;

/// Gradients are averaged once per step, however many backward passes they come from. step() clears
/// them, so the next pass starts from zero. Before step(), a parameter's grad() holds this rank's
/// own gradient; after clip_grad_norm() it holds the average, but only in this rank's part.
/// Buffers, such as running statistics, are each rank's own: see broadcast_buffers (same_model.h).
/// A parameter that some ranks' losses have reached is changed by the average, to which the other
/// ranks contribute zeros; one that none has reached is left alone.
// Inherits privately: nn::clip_grad_norm and GradScaler would see gradients that are not averaged
// yet.
class ShardedOptimizer : private nn::Optimizer {
 public:
  /// Makes an optimizer of exactly these parameters.
  using MakeOptimizer =
      std::function<std::unique_ptr<nn::Optimizer>(const std::vector<Tensor>& parameters)>;

  /// Checks that all ranks hold the same parameters and buffers by name, shape and dtype, and gives
  /// all of them rank 0's values. Parameters that are frozen now are left out; those that are
  /// frozen later keep their values. `make_optimizer` is called for each part that this rank
  /// changes, at most twice per dtype. The optimizers that it makes get flat parts instead of the
  /// module's parameters, so groups of parameters are given here: `groups` must hold the module's
  /// trained parameters, which by default are one group.
  ///
  /// REQUIRES: module and comm outlive this object, and the module stays where it is; every rank
  ///           constructs it at the same point, and no DistributedDataParallel averages the same
  ///           gradients
  /// Throws:   CollectiveError naming the ranks whose models differ; ValueError if no parameter is
  ///           trained, if make_optimizer returns null or an optimizer of other parameters, or if
  ///           the groups hold others; what make_optimizer throws, with the line of this call.
  ///           nn::Muon throws ShapeError: it needs whole matrices, and parts are flat
  ShardedOptimizer(nn::Module& module, Communicator& comm, const MakeOptimizer& make_optimizer,
                   const nn::ParameterGroups& groups = {}, Where where = Where::current());

  /// Averages the gradients and changes the parameters by them. All ranks must call it.
  void step(Where where = Where::current()) { step(1, where); }
  /// The same, with gradients multiplied by `grad_scale`, the same on all ranks, during the step
  /// (ModelGradients::step).
  void step(double grad_scale, Where where = Where::current());

  /// Averages the gradients now, unless they have been averaged since the last pass. step() then
  /// does not average them again. Until the gradients are cleared, this rank's parts() hold the
  /// average. All ranks must call it.
  ///
  /// Throws: AutogradError if some gradients are averages, and others came later; so does a
  ///         backward pass that would add to an average. AutogradError for a parameter that was
  ///         unfrozen or added since the construction
  void average_gradients(Where where = Where::current());

  /// Averages the gradients and scales them by one factor, so that their joint Euclidean norm is at
  /// most max_norm. Returns the norm before scaling, the same on all ranks. step() must come next,
  /// without a backward pass in between. All ranks must call it.
  ///
  /// Throws: ValueError unless max_norm > 0, or on all ranks if the norm is not finite (the
  ///         gradients are dropped then); ValueError for a pipeline's stage and for parallel
  ///         layers, since other ranks have the rest of the model: ModelGradients takes the norm of
  ///         the whole model
  double clip_grad_norm(double max_norm, Where where = Where::current());

  using Optimizer::arenas;
  using Optimizer::learning_rate;
  using Optimizer::parameters;
  using Optimizer::set_learning_rate;
  using Optimizer::zero_grad;

  /// The size of the optimizer's state on this rank, in bytes.
  std::int64_t state_bytes() const;

  /// The optimizer that changes elements [begin, begin + count) of arenas()[arena].
  struct Part {
    nn::Optimizer* optimizer;
    std::size_t arena;
    std::int64_t begin, count;
  };
  /// This rank's part of each arena, and the rest, which all ranks have.
  std::vector<Part> parts() const;
  std::vector<nn::Optimizer*> local_optimizers() const;

  /// "step", "learning_rate" and "i.steps" as in nn::Optimizer, and for each parts()[k] its
  /// optimizer's state, flat, as "k.momentum" and the like. It is this rank's state alone: a
  /// ShardedCheckpoint can put the ranks' states together, an nn::Checkpoint cannot.
  nn::StateDict state_dict() const;
  /// Throws as nn::Optimizer::load_state_dict.
  void load_state_dict(const nn::StateDict& state, Where where = Where::current());
  void check_state_dict(const nn::StateDict& state, Where where = Where::current()) const;

 private:
  // How an arena is cut. An arena may be too small for parts, or have no rest.
  struct Cut {
    std::int64_t parts_end;  // where the rest begins
    std::unique_ptr<nn::Optimizer> own, rest;
  };

  ShardedOptimizer(const Replica& replica, nn::Module& module, Communicator& comm,
                   const MakeOptimizer& make_optimizer, const nn::ParameterGroups& groups,
                   Where where);

  bool are_averaged(Where where) const;
  nn::StateDict part_state(const nn::StateDict& state, std::size_t part) const;
  void update(const Range& range, double grad_scale, Where where) override;
  void agree_on_frozen(const Tensor& presence, Where where);

  Communicator& comm_;
  const KnownParameters known_;
  const std::uint16_t purpose_;    // of its calls (comm/common/call_purpose.h)
  nn::PartialGradients summands_;  // marks the parameters
  std::vector<Cut> cuts_;          // one per arena
  FrozenParameters frozen_later_;
};

}  // namespace ringrad
