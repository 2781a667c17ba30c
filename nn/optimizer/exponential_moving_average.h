// ExponentialMovingAverage: averaged weights, which often score better than the last ones.
//
//     nn::ExponentialMovingAverage average(net, {.decay = 0.999});
//     for (...) {
//       ...
//       optimizer.step();
//       average.update();                         average = decay * average + (1 - decay) * weights
//     }
//     {
//       const auto applied = average.applied();   the net has the averaged weights ...
//       evaluate(net);
//     }                                           ... until here
//
// It averages the parameters that are trained when it is made. Buffers, such as batch norms'
// running statistics, are averages already and stay the net's own. Averages of 16-bit parameters
// are float32.
//
// Make it after Module::to(), which moves parameters to other memory.

#pragma once

#include <string>
#include <vector>

#include "ringrad/nn/arena.h"
#include "ringrad/nn/module.h"
#include "ringrad/nn/state_dict.h"

namespace ringrad::nn {

struct AverageOptions {
  double decay = 0.999;  ///< of each update; averages about 1 / (1 - decay) of them
};

class ExponentialMovingAverage {
 public:
  /// The average begins as the current weights.
  ///
  /// Throws:  ValueError unless 0 <= decay <= 1, or if no parameter is trained
  explicit ExponentialMovingAverage(const Module& module, const AverageOptions& options = {},
                                    Where where = Where::current());
  // Moves only: a copy would share the averages' memory.
  ExponentialMovingAverage(ExponentialMovingAverage&&) = default;
  ExponentialMovingAverage& operator=(ExponentialMovingAverage&&) = default;

  /// Moves the average towards the current weights: one pass over both.
  /// Throws AutogradError if a parameter was moved to other memory.
  void update(Where where = Where::current());

  /// Gives the module the averaged weights, for good.
  void apply(Where where = Where::current()) const;

  /// While this object lives, the module has the averaged weights. Then it gets its own back.
  class Applied {
   public:
    explicit Applied(const ExponentialMovingAverage& average, Where where);
    ~Applied();
    Applied(const Applied&) = delete;
    Applied& operator=(const Applied&) = delete;

   private:
    const ExponentialMovingAverage& average_;
    std::vector<Tensor> own_;  // one per arena
  };
  /// REQUIRES: this object lives longer, and nothing trains meanwhile
  Applied applied(Where where = Where::current()) const { return Applied(*this, where); }

  /// The averages by the parameters' names: this object's own tensors, not copies.
  StateDict state_dict() const;
  /// Throws as Module::load_state_dict.
  void load_state_dict(const StateDict& state, Where where = Where::current());
  /// Throws what load_state_dict would.
  void check_state_dict(const StateDict& state, Where where = Where::current()) const;

 private:
  void check_in_place(Where where) const;
  void set_values(const std::vector<Tensor>& values, Where where) const;

  double decay_;
  std::vector<ParameterArena> arenas_;
  std::vector<Tensor> averages_;                 // one per arena
  std::vector<std::vector<std::string>> names_;  // of each arena's parameters
};

}  // namespace ringrad::nn
