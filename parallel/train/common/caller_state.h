// CallerState: the state of a thread that decides, besides its inputs, what its operators do:
// whether they record, in which dtype, on which device and streams they work, which random numbers
// they draw, and which changes they refuse while a checkpoint runs again. Divided work gets the
// caller's state in every part, whichever thread runs that part.
//
//     caller's thread     CallerState caller;
//     any thread          AsCaller guard(caller, k, caller.device());   part k, as the caller would
//
// Part 0 draws random numbers from the caller's default generator; part k draws from a generator of
// the same offset, with a seed made of the caller's seed and k. The numbers therefore depend
// neither on which part runs first nor on how many threads there are.

#pragma once

#include <forward_list>
#include <vector>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/saved_tensor.h"
#include "ringrad/core/base/device.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/random/random.h"

namespace ringrad {

/// The generator that part k draws from, if the caller would draw from `caller`.
Generator generator_of_part(const Generator& caller, int k);

class CallerState {
 public:
  /// The state of the calling thread. That thread must wait for all threads that take on its state.
  CallerState();

  Device device() const { return device_; }

 private:
  friend class AsCaller;

  Device device_ = default_device();
  bool records_ = grad_enabled();
  DType autocast_ = autocast_dtype();
  Generator generator_ = default_generator();
  detail::DrawWatch* draw_watch_ = detail::draw_watch;
  const detail::QuietTime* quiet_time_ = detail::quiet_time;
  std::vector<Stream> streams_;  // those that are not a device's default stream
};

/// Gives the calling thread the caller's state until the end of the scope, with `device` as the
/// default device.
class AsCaller {
 public:
  AsCaller(const CallerState& caller, int k, Device device);
  ~AsCaller();
  AsCaller(const AsCaller&) = delete;
  AsCaller& operator=(const AsCaller&) = delete;

 private:
  const Generator own_generator_ = default_generator();
  detail::DrawWatch* const own_draw_watch_ = detail::draw_watch;
  const detail::QuietTime* const own_quiet_time_ = detail::quiet_time;
  const DefaultDeviceGuard device_;
  const GradMode mode_;
  const Autocast autocast_;
  std::forward_list<StreamGuard> streams_;
};

}  // namespace ringrad
