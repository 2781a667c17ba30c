// DataParallel: one process, one call, several devices. Each device computes a part of the batch.
//
//     nn::Sequential net = make_net();                          on cuda:0, as x and y are
//     DataParallel parallel(net, make_net, {"cuda:0", "cuda:1", "cuda:2"});
//     cross_entropy(parallel(x), y).backward();
//
//                       .-- x[0:3] -- replica 0 on cuda:0 -- y[0:3] --.
//     forward    x (8) -+-- x[3:6] -- replica 1 on cuda:1 -- y[3:6] --+- y (8)      then any loss
//                       '-- x[6:8] -- replica 2 on cuda:2 -- y[6:8] --'
//
//     backward   the parts of grad_output go the same ways back; every parameter's gradient is
//                ((replica 0's + replica 1's) + replica 2's), in the order of devices
//
// Guarantee: if the module treats each row of axis 0 by itself, outputs equal those of one device
// on the whole batch: to the bit for sums, products and quotients of elements; up to rounding where
// the computation depends on the number of rows or on a row's position (matrix products, exp).
// Gradients are equal up to the rounding of a different order of summation. Two runs give the same
// bits. One device gives the bits of the module itself.
//
// README.md says more: "DataParallel: ownership".

#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringrad/nn/module.h"

namespace ringrad {

template <class Make>
concept MakesModule = std::derived_from<std::invoke_result_t<Make>, nn::Module>;

/// Batch norm normalises by each replica's own part, and the running statistics are those of
/// replica 0 (as in PyTorch). Replica 0 draws random numbers from the caller's default generator;
/// replica k draws from a generator of the same offset, with a seed made of the caller's seed and
/// k. Autocast, NoGradGuard and the caller's current streams hold in replicas.
///
/// Two forward passes may come before their backward passes. As on one device, an optimizer step in
/// between is noticed.
class DataParallel {
 public:
  /// Makes a module like the one that is trained; called once per device.
  using MakeReplica = std::function<std::unique_ptr<nn::Module>()>;

  /// `make_replica` makes the module again, once for each device in this order. Its values do not
  /// matter, and the random numbers that it draws do not advance the caller's generator. A device
  /// may be listed several times, e.g. {"cpu", "cpu"}.
  ///
  /// REQUIRES: module outlives all calls
  /// Throws:   ValueError for no devices, or if a replica differs from the module in its tree of
  ///           modules, or in a parameter's or buffer's name, dtype or shape; DeviceError unless
  ///           the module is on devices[0]
  DataParallel(nn::Module& module, const MakeReplica& make_replica,
               const std::vector<Device>& devices, Where where = Where::current());

  /// The same, for a function that returns the module by value.
  template <MakesModule Make>
  DataParallel(nn::Module& module, Make make_replica, const std::vector<Device>& devices,
               Where where = Where::current())
      : DataParallel(module, as_unique(std::move(make_replica)), devices, where) {}

  /// module(x), each replica on a part of axis 0. Parts differ by at most one row, and the first
  /// ones are the larger ones. A batch with fewer rows than devices goes to as many replicas as it
  /// has rows.
  ///
  /// Shapes:  x (B, ...) -> (B, ...)
  /// Throws:  ShapeError unless the module keeps axis 0; DeviceError unless x is on devices[0], or
  ///          if the module was moved; DTypeError if it was cast; ValueError for a call within a
  ///          call. If replicas throw: after all have ended, the error of the lowest replica k that
  ///          failed, with "DataParallel: replica k on <device>: " before its message. Backward
  ///          throws alike, and AutogradError with create_graph
  Tensor forward(const Tensor& x, Where at = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) { return forward(x, where); }

  /// The module that is trained.
  nn::Module& module() { return module_; }
  const std::vector<Device>& devices() const { return devices_; }

 private:
  class Replicas;

  template <class Make>
  static MakeReplica as_unique(Make make) {
    return [make]() mutable { return std::make_unique<std::invoke_result_t<Make>>(make()); };
  }

  nn::Module& module_;
  const std::vector<Device> devices_;
  std::shared_ptr<Replicas> replicas_;  // recorded graphs keep it alive
};

}  // namespace ringrad
