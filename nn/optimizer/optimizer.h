// Optimizer: the common part of SGD, Adam and others.
//
//     nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
//     for (...) {
//       optimizer.zero_grad();
//       cross_entropy(net(x), y).backward();
//       nn::clip_grad_norm(optimizer.arenas(), 1.0);  // or net.parameters(): more passes
//       optimizer.step();
//     }
//
// The constructor packs the parameters into an arena (nn/arena.h), so that a step is one
// pass over flat memory.
//
// A step changes the parameters that have a gradient. It does not touch those that no backward pass
// has reached since zero_grad(), nor frozen ones: neither momentum nor weight decay moves them,
// their state stays, and their steps are not counted (Adam's bias correction depends on the count).
// Parameters may differ in learning rate and weight decay (nn/optimizer/parameter_group.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ringrad/nn/arena.h"
#include "ringrad/nn/optimizer/parameter_group.h"
#include "ringrad/nn/state_dict.h"

namespace ringrad::nn {

class Optimizer {
 public:
  // Moves only: a copy would share the state's memory, but not the counts.
  Optimizer(Optimizer&&) = default;
  Optimizer& operator=(Optimizer&&) = default;
  virtual ~Optimizer() = default;

  /// Updates the parameters by their gradients.
  void step(Where where = Where::current());
  /// The same, with gradients multiplied by `grad_scale` during the step (grad_scaler.h).
  void step(double grad_scale, Where where = Where::current());

  /// Clears all gradients: the next backward pass replaces them. Tensors that grad() has given, and
  /// views of them, keep their values. Arrays of other libraries keep theirs only until the next
  /// step or, in a data-parallel model, until the next backward pass.
  void zero_grad() const;

  /// The rate of groups whose learning_rate_scale is 1.
  double learning_rate() const { return learning_rate_; }
  /// Throws ValueError unless the rate is finite and not negative.
  void set_learning_rate(double rate, Where where = Where::current());

  const std::vector<ParameterArena>& arenas() const { return arenas_; }
  /// In the order in which they were given; state_dict() numbers them in this order.
  const std::vector<Tensor>& parameters() const { return parameters_; }

  /// The state after the steps so far: "step" () int64 and "learning_rate" () float64. For the i-th
  /// parameter it has "i.steps" () int64, the number of steps that have changed it, and, in the
  /// parameter's shape, "i.momentum" or whatever else the algorithm keeps. The latter are the
  /// optimizer's own tensors, not copies. Options are not included.
  StateDict state_dict() const;

  /// Restores a state. Throws as Module::load_state_dict, and ValueError for a negative step or
  /// rate.
  void load_state_dict(const StateDict& state, Where where = Where::current());
  /// Throws what load_state_dict would.
  void check_state_dict(const StateDict& state, Where where = Where::current()) const;

  /// The memory of momentum and similar state in bytes, without values and gradients.
  std::int64_t state_bytes() const;

  /// Neighbouring parameters of one group that have been changed equally often: elements [begin,
  /// end) of an arena.
  struct Range {
    std::size_t arena;
    std::size_t group;
    std::int64_t begin, end;
    const std::int64_t*
        num_steps;  ///< steps of each, including the current one; valid as long as the optimizer
  };
  /// Updates the values in `range` by their settled gradients, times grad_scale. step() consists of
  /// such calls; ShardedOptimizer makes them for parts of parameters. A captured step repeats the
  /// kernels and not this function, so numbers that change between steps belong in the function
  /// that kernels::replayable_sgd_step and its kin take, as in sgd.cc.
  virtual void update(const Range& range, double grad_scale, Where where) = 0;

  /// Replaces this optimizer's groups by those of `other`, on whose behalf it updates ranges. Where
  /// they name no weight decay, this optimizer's options hold.
  void take_groups(const Optimizer& other) { groups_ = other.groups_; }

 protected:
  /// Throws ValueError for no parameters, or unless learning rates, scales and weight decays are
  /// finite and not negative, and as make_arenas.
  Optimizer(const ParameterGroups& groups, double learning_rate, double weight_decay, Where where)
      : Optimizer(groups, learning_rate, weight_decay, {}, where) {}
  /// The same for parameters that lie in `arenas` already, which hold no others.
  Optimizer(const ParameterGroups& groups, double learning_rate, double weight_decay,
            std::vector<ParameterArena> arenas, Where where);

  /// The rate and the weight decay that hold for the parameters of a group.
  double learning_rate(std::size_t group) const {
    return learning_rate_ * groups_[group].learning_rate_scale;
  }
  double weight_decay(std::size_t group) const {
    return groups_[group].weight_decay.value_or(weight_decay_);
  }

  /// Adds state with one number per element, at first `value`. state_dict() has it by this name,
  /// which must be new.
  void add_state(const std::string& name, double value = 0);

  /// Elements `range` of the values, of the gradients, and of added state (undefined if it was not
  /// added).
  Tensor values(const Range& range) const;
  Tensor gradients(const Range& range) const;
  Tensor state(const std::string& name, const Range& range) const;

  /// The number of calls of step(), including the one that is running.
  std::int64_t num_steps() const { return num_steps_; }

 private:
  struct Group {
    double learning_rate_scale;
    std::optional<double> weight_decay;
  };

  void update_arena(std::size_t index, double grad_scale, Where where);
  std::vector<std::vector<std::size_t>> positions() const;

  std::vector<Tensor> parameters_;  // in the order in which they were given
  std::vector<ParameterArena> arenas_;
  std::vector<Group> groups_;
  std::vector<std::vector<std::size_t>> group_of_;     // each arena's parameters
  std::vector<std::vector<std::int64_t>> steps_;       // of each arena's parameters
  std::map<std::string, std::vector<Tensor>> states_;  // by name: like each arena's values
  double learning_rate_ = 0;
  double weight_decay_ = 0;
  std::int64_t num_steps_ = 0;
};

/// Scales all gradients by the same factor so that their joint Euclidean norm is at most max_norm;
/// returns the norm before scaling. It does not overflow; a norm that no double can hold is
/// returned as infinity. An infinite max_norm only measures.
///
/// Throws:  ValueError unless max_norm > 0, if a gradient is not finite (nothing is scaled then),
///          or if other ranks have parts of the gradients: see ModelGradients
///          (parallel/train/gradients/model_gradients.h)
/// Paper:   Pascanu, Mikolov, Bengio 2012, arXiv:1211.5063
double clip_grad_norm(const std::vector<ParameterArena>& arenas, double max_norm,
                      Where where = Where::current());
/// The same for the gradients of these parameters, in an arena or not; those without one stay
/// without. Throws AutogradError also for one that is not a leaf.
/// REQUIRES: no parameter is listed twice
double clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm,
                      Where where = Where::current());

}  // namespace ringrad::nn
