// ShardedOptimizer: data parallel training in which each rank keeps the optimizer's state of one part of the
// parameters only (ZeRO, stage 1).
//
//     nn::Sequential net = ...;                       used in place of DistributedDataParallel:
//     ShardedOptimizer optimizer(net, comm, [](const std::vector<Tensor>& p) {
//       return std::make_unique<nn::Adam>(p);
//     });
//     for (...) {
//       loss(net(x)).backward();                      this rank's part of the batch; nothing is sent
//       optimizer.clip_grad_norm(1.0);                if wanted
//       optimizer.step();
//     }
//
// A step with three ranks, on the model's arena (nn/arena.h):
//
//     gradients   | part 0 | part 1 | part 2 |rest|    reduce_scatter(mean): rank r averages part r
//     state       |  on 0  |  on 1  |  on 2  | all|    rank r changes part r of the values
//     values      | part 0 | part 1 | part 2 |rest|    all_gather: every rank has all of them
//
// Parts are equal and cut at multiples of 64 bytes. The rest, less than 64 n bytes, is everybody's: it is all-reduced,
// and changed alike on all ranks. No memory is added: a part is a slice of the model's own values and gradients.
//
// Each rank owns: a full replica, full gradients, 1/n of every batch, and 1/n of the optimizer's state, which
// state_bytes() tells. On a ring, a step sends 2 (n - 1) / n times the bytes of the parameters from each rank, as the one
// all_reduce that it replaces does.
//
// Guarantee: starting from rank 0's values, which the constructor broadcasts, all replicas hold identical bits after
// every step. While sums are canonical (plan/sum_order.h), these are the bits that DistributedDataParallel gives with
// an optimizer on every rank, since optimizers treat each element by itself; after clip_grad_norm up to the rounding of
// the norm, whose squares are added in another order.
//
// Gradients are averaged once per step, however many backward passes they come from, and step() uses them up: the next
// pass starts from zero. Until then a parameter's grad() is what this rank has contributed; after clip_grad_norm()
// it is the average in this rank's part alone. Buffers, such as running statistics, are each rank's own: see
// broadcast_buffers (same_model.h).
//
// A parameter that some ranks' losses have reached is changed by the average, to which the other ranks contribute zeros;
// one that none has reached is left alone.
//
// Paper: Rajbhandari, Rasley, Ruwase, He 2020, "ZeRO: memory optimizations toward training trillion parameter models",
// arXiv:1910.02054, section 5.1 (P_os)

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "nn/module.h"
#include "nn/optimizer.h"
#include "nn/state_dict.h"
#include "parallel/comm/communicator.h"

namespace ringrad {

// Privately: nn::clip_grad_norm and GradScaler would look at gradients that are not averaged yet.
class ShardedOptimizer : private nn::Optimizer {
 public:
  /// Makes an optimizer of exactly these parameters.
  using MakeOptimizer =
      std::function<std::unique_ptr<nn::Optimizer>(const std::vector<Tensor>& parameters)>;

  /// Checks that all ranks hold the same parameters and buffers by name, shape and dtype, and gives all of them rank
  /// 0's values. Parameters that are frozen now are left out; those that are frozen later keep their values.
  /// `make_optimizer` is called for each part that this rank changes, at most twice per dtype.
  ///
  /// REQUIRES: comm outlives this object; every rank constructs it at the same point, and no
  ///           DistributedDataParallel averages the same gradients
  /// Throws:   CollectiveError naming the ranks whose models differ; ValueError if no parameter is trained, or
  ///           make_optimizer does not do what it should
  ShardedOptimizer(nn::Module& module, Communicator& comm, const MakeOptimizer& make_optimizer,
                   Where where = Where::current());

  /// Averages the gradients and changes the parameters by them. All ranks call it.
  void step(Where where = Where::current());

  /// Averages the gradients, and scales them by the same factor so that their joint Euclidean norm is at most max_norm;
  /// returns the norm before, which is the same on all ranks. step() comes next, without a backward pass between.
  /// All ranks call it.
  ///
  /// Throws: ValueError unless max_norm > 0, or on all ranks if the norm is not finite (nothing is scaled then)
  double clip_grad_norm(double max_norm, Where where = Where::current());

  /// Drops the gradients.
  void zero_grad();

  using Optimizer::arenas;
  using Optimizer::learning_rate;
  using Optimizer::parameters;
  using Optimizer::set_learning_rate;

  /// The bytes of the optimizer's state on this rank.
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

  /// "step", "learning_rate" and "i.steps" as of nn::Optimizer, and for parts()[k] its optimizer's state, flat, as "k.momentum" and the like. It is this
  /// rank's alone: a ShardedCheckpoint knows how to put the ranks' states together, a nn::Checkpoint does not.
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

  nn::StateDict part_state(const nn::StateDict& state, std::size_t part) const;
  void update(const Range& range, double grad_scale, Where where) override;
  void average_gradients(Where where);

  Communicator& comm_;
  std::vector<Cut> cuts_;  // one per arena
  bool averaged_ = false;  // since the last step
};

}  // namespace ringrad
