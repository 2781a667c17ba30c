// Optimizer: what SGD and Adam have in common.
//
//     nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
//     for (...) {
//       optimizer.zero_grad();
//       cross_entropy(net(x), y).backward();
//       nn::clip_grad_norm(optimizer.arenas(), 1.0);
//       optimizer.step();
//     }
//
// Constructing one packs the parameters into an arena (nn/arena.h), so that a step is one pass over
// flat memory.
//
// A step changes the parameters that have a gradient. It leaves alone those that no backward pass has
// reached since zero_grad(), and those that were frozen: neither momentum nor weight decay moves them, their
// state stays, and their steps are not counted (Adam's bias correction depends on the count).

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nn/arena.h"
#include "nn/state_dict.h"

namespace ringrad::nn {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Changes the parameters by their gradients.
  void step(Where where = Where::current());
  /// The same with gradients that are multiplied by `grad_scale` on their way (grad_scaler.h).
  void step(double grad_scale, Where where = Where::current());

  void zero_grad() const;

  double learning_rate() const { return learning_rate_; }
  /// Throws ValueError unless rate >= 0.
  void set_learning_rate(double rate, Where where = Where::current());

  const std::vector<ParameterArena>& arenas() const { return arenas_; }
  /// In the order in which they were given, by which state_dict() numbers them.
  const std::vector<Tensor>& parameters() const { return parameters_; }

  /// What steps have left behind: "step" () int64 and "learning_rate" () float64; and for the i-th parameter
  /// that it was made with "i.steps" () int64, how many steps have changed it, and in its shape "i.momentum"
  /// or what else the algorithm keeps. The latter are the optimizer's own tensors, not copies. Options are
  /// not part of it.
  StateDict state_dict() const;

  /// Goes on from there. Throws as Module::load_state_dict, and ValueError for a negative step or rate.
  void load_state_dict(const StateDict& state, Where where = Where::current());
  /// Throws what load_state_dict would.
  void check_state_dict(const StateDict& state, Where where = Where::current()) const;

  /// The memory of momentum and the like, beside values and gradients.
  std::int64_t state_bytes() const;

  /// Neighbouring parameters that have been changed equally often: elements [begin, end) of an arena.
  struct Range {
    std::size_t arena;
    std::int64_t begin, end;
    const std::int64_t*
        num_steps;  ///< of each, with the one that runs now; lives as the optimizer does
  };
  /// Changes the values in `range` by their settled gradients, times grad_scale. What step() is made of.
  virtual void update(const Range& range, double grad_scale, Where where) = 0;

 protected:
  /// Throws ValueError for no parameters, or a negative learning rate; as ParameterArena for the
  /// rest.
  Optimizer(const std::vector<Tensor>& parameters, double learning_rate, Where where);

  /// Zeros like each arena's values: state with one number per element.
  std::vector<Tensor> zeros_like_arenas() const;

  /// Elements `range` of a flat tensor.
  static Tensor part_of(const Tensor& flat, const Range& range);

  /// Calls of step() so far, with the one that runs now.
  std::int64_t num_steps() const { return num_steps_; }

 private:
  /// State by name: one tensor per arena, laid out as its values.
  virtual std::map<std::string, std::vector<Tensor>> flat_state() const { return {}; }

  void update_arena(std::size_t index, double grad_scale, Where where);
  std::vector<std::vector<std::size_t>> positions() const;

  std::vector<Tensor> parameters_;  // in the order in which they were given
  std::vector<ParameterArena> arenas_;
  std::vector<std::vector<std::int64_t>> steps_;  // of each arena's parameters
  double learning_rate_ = 0;
  std::int64_t num_steps_ = 0;
};

/// Scales all gradients by the same factor so that their joint Euclidean norm is at most max_norm;
/// returns the norm before.
///
/// Throws:  ValueError unless max_norm > 0, or if the norm is not finite (nothing is scaled then)
/// Paper:   Pascanu, Mikolov, Bengio 2012, arXiv:1211.5063
double clip_grad_norm(const std::vector<ParameterArena>& arenas, double max_norm,
                      Where where = Where::current());

}  // namespace ringrad::nn
