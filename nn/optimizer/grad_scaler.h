// GradScaler: keeps the gradients of float16 activations from vanishing.
//
//     nn::GradScaler scaler;
//     scaler.scale(loss).backward();          gradients are `scale` times too large ...
//     scaler.step(optimizer);                 ... until here; a step with infinite ones is skipped
//     scaler.update();                        larger after many good steps, smaller after a skip
//
// A gradient below 6e-8 is 0 in float16. Multiplying the loss by a power of two makes all gradients
// larger, and dividing by it later is exact. The largest useful scale is found by trial: the scale
// grows until gradients overflow. bfloat16 needs none of this. The scale stays between 2^-24 and
// 2^120, so a scaled loss neither vanishes nor overflows for good.
//
// Ranks of a DistributedDataParallel need nothing more: an infinite or NaN gradient of one rank
// makes the average so, with the same bits on all ranks, so all of them skip the step.
//
// Paper: Micikevicius et al. 2018, arXiv:1710.03740, section 3.2

#pragma once

#include <cstdint>

#include "ringrad/core/tensor.h"
#include "ringrad/nn/optimizer/optimizer.h"
#include "ringrad/nn/state_dict.h"

namespace ringrad::nn {

struct GradScalerOptions {
  double initial_scale = 65536;
  double growth = 2;     ///< factor after growth_interval good steps
  double backoff = 0.5;  ///< factor after a skipped step
  std::int64_t growth_interval = 2000;
};

class GradScaler {
 public:
  /// Throws ValueError unless initial_scale > 0, growth > 1, 0 < backoff < 1, growth_interval > 0,
  /// all finite.
  explicit GradScaler(const GradScalerOptions& options = {}, Where where = Where::current());

  /// loss * scale()
  Tensor scale(const Tensor& loss, Where where = Where::current()) const;

  /// optimizer.step() with the gradients divided by scale(). If a gradient is infinite or NaN,
  /// nothing changes, and the result is false. Waits for the gradients.
  ///
  /// Throws ValueError if other ranks have parts of the gradients: those ranks would not skip the
  /// step. ModelGradients::step (parallel/train/gradients/model_gradients.h) makes all of them skip
  /// it.
  bool step(Optimizer& optimizer, Where where = Where::current());

  /// The same, with gradients clipped as by clip_grad_norm(), except that infinite or NaN gradients
  /// skip the step and do not throw. max_norm limits the norm of the divided gradients.
  ///
  /// Throws ValueError also unless max_norm > 0.
  bool step(Optimizer& optimizer, double max_norm, Where where = Where::current());

  /// Counts a step that was made without this object, or skipped since gradients were not finite.
  void report(bool is_finite) { overflowed_ |= !is_finite; }

  /// Chooses the scale of the next step. Call it once per step, after the last optimizer.
  void update();

  double scale() const { return scale_; }

  /// "scale" () float64, "good_steps" () int64. Options are not included, nor that a step since the
  /// last update() has overflowed.
  StateDict state_dict() const;
  /// Throws as Module::load_state_dict, and ValueError unless scale is positive and
  /// finite and good_steps >= 0.
  void load_state_dict(const StateDict& state, Where where = Where::current());
  /// Throws what load_state_dict would.
  void check_state_dict(const StateDict& state, Where where = Where::current()) const;

 private:
  GradScalerOptions options_;
  double scale_;
  std::int64_t good_steps_ = 0;  // since the scale last changed
  bool overflowed_ = false;      // since update()
};

}  // namespace ringrad::nn
