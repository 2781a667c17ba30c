// DataParallel: one process, one call, several devices: each computes a part of the batch.
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
// Replicas compute at the same time, each on a thread of its own with its share of the OpenMP threads, and each with a
// tape of its own, so all of them together are one operation on the tape of the caller. Before a forward
// pass they get what has changed of the module: values of parameters and buffers, what is frozen, and whether it
// trains. Replicas on the module's own device read its parameters where they lie.
//
// Each device owns a copy of the parameters, and the activations of its part of the batch. devices[0] owns the module:
// parameters, gradients and buffers, which optimizers and state_dict() are about; its own forward() is not called.
// A step sends all parameters from devices[0] to each other device, and all gradients back, one after the other.
// Where ranks can be had, DistributedDataParallel sends less, and all at the same time.
//
// Guarantee: if the module treats each row of axis 0 by itself, outputs are what one device gives on the whole batch:
// to the bit for sums, products and quotients of elements; up to rounding for what is computed in another way
// depending on how many rows there are, or where one lies (matrix products, exp). Gradients are equal up to the
// rounding of a different order of summation. Two runs give the same bits, and one device those of the module itself.
//
// Batch norm normalises by each replica's own part, and the running statistics are those of replica 0 (the same in
// PyTorch). Random numbers: replica 0 draws from the caller's default generator, replica k from one of the same
// offset and a seed made of the caller's and k. Autocast, NoGrad and the caller's current streams hold in replicas.
//
// Two forward passes may come before their backward passes; like on one device, an optimizer step between is noticed.

#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "nn/module.h"

namespace ringrad {

template <class Make>
concept MakesModule = std::derived_from<std::invoke_result_t<Make>, nn::Module>;

class DataParallel {
 public:
  using MakeReplica = std::function<std::unique_ptr<nn::Module>()>;

  /// `make_replica` makes the module again, once for each device in this order. Its values do not matter, and random
  /// numbers that it draws are not missed. A device may be listed several times, e.g. {"cpu", "cpu"}.
  ///
  /// REQUIRES: module outlives all calls
  /// Throws:   ValueError for no devices, or if a replica differs from the module in its tree of modules, or in a
  ///           parameter's or buffer's name, dtype or shape; DeviceError unless the module is on devices[0]
  DataParallel(nn::Module& module, const MakeReplica& make_replica,
               const std::vector<Device>& devices, Where where = Where::current());

  /// The same with a function that returns the module itself.
  template <MakesModule Make>
  DataParallel(nn::Module& module, Make make_replica, const std::vector<Device>& devices,
               Where where = Where::current())
      : DataParallel(module, as_unique(std::move(make_replica)), devices, where) {}

  /// module(x), each replica on a part of axis 0. Parts differ by one row at most, and the first ones are larger; a
  /// batch with fewer rows than devices goes to as many replicas as it has rows.
  ///
  /// Shapes:  x (B, ...) -> (B, ...)
  /// Throws:  ShapeError unless the module keeps axis 0; DeviceError unless x is on devices[0], or if the module was
  ///          moved; DTypeError if it was cast; ValueError for a call within a call. What a replica throws, after all
  ///          have ended, with "DataParallel: replica k on <device>: " before its message; the lowest k if
  ///          several do. Backward throws alike, and AutogradError with create_graph
  Tensor forward(const Tensor& x, Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) { return forward(x, where); }

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
  std::shared_ptr<Replicas> replicas_;  // graphs hold on to it
};

}  // namespace ringrad
