// CallerState: what decides, beside its inputs, what the operators of a thread do: whether they record, in which dtype
// and on which device and streams they work, and which random numbers they draw. Work that is divided gets it in every
// part, on whichever thread that runs.
//
//     caller's thread     CallerState caller;
//     any thread          AsCaller guard(caller, k, caller.device());      computes part k as the caller would
//
// Random numbers: part 0 draws from the caller's default generator, part k from one of the same offset and a seed made
// of the caller's and k. So they do not depend on which part is first, nor on how many threads there are.

#pragma once

#include <forward_list>
#include <vector>

#include "autograd/autocast.h"
#include "autograd/grad_mode.h"
#include "core/device.h"
#include "core/random.h"
#include "core/stream.h"

namespace ringrad {

/// What part k draws from, if the caller would draw from `caller`.
Generator generator_of_part(const Generator& caller, int k);

class CallerState {
 public:
  /// That of the calling thread.
  CallerState();

  Device device() const { return device_; }

 private:
  friend class AsCaller;

  Device device_ = default_device();
  bool records_ = grad_enabled();
  DType autocast_ = autocast_dtype();
  Generator generator_ = default_generator();
  std::vector<Stream> streams_;  // those that are not a device's default one
};

/// Gives the calling thread the caller's state until the end of the scope, with `device` as the default device.
class AsCaller {
 public:
  AsCaller(const CallerState& caller, int k, Device device);
  ~AsCaller() { default_generator() = own_generator_; }
  AsCaller(const AsCaller&) = delete;
  AsCaller& operator=(const AsCaller&) = delete;

 private:
  const Generator own_generator_ = default_generator();
  const DefaultDeviceGuard device_;
  const GradMode mode_;
  const Autocast autocast_;
  std::forward_list<StreamGuard> streams_;
};

}  // namespace ringrad
