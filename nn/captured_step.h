// CapturedStep: a training step that a GPU repeats by itself.
//
//     nn::CapturedStep step(
//         [&](const std::vector<Tensor>& batch) {
//           optimizer.zero_grad();
//           const Tensor loss = cross_entropy(net(batch[0]), batch[1]);
//           loss.backward();
//           optimizer.step();
//           return std::vector{loss};
//         },
//         net.parameters());                 if it has buffers, these as well
//     for (...) print(step({x, y})[0].item());
//
// A small network's step is hundreds of short kernels, and the GPU waits for the host to launch
// each one. Here the first call runs the function as it is. The second call captures the queued
// work and replays it. From then on, a call is one launch. Every call is one training step, with
// the same bits as without capture. On a CPU every call runs the function.
//
// The captured work is a list of kernels and addresses, so a replay does not repeat what the host
// did: the function must not branch on values, print, or count, and must hold zero_grad(), backward
// and the optimizer's step together. Values that the library sets on the host at each step (random
// numbers, the optimizer's learning rate and step count) still reach the device. Anything that
// cannot be repeated throws: reading a tensor on the host, another shape, a moved parameter.
//
// README.md says more: "Captured steps".

#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ringrad/core/capture.h"
#include "ringrad/core/tensor.h"

namespace ringrad::nn {

class CapturedStep {
 public:
  /// The work of a step, which must be the same in each call.
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

  /// `fixed` are the tensors that the function uses besides its inputs and that must keep their
  /// memory: the parameters and buffers. Those that the function changes count as changed after
  /// each call, which averaging between ranks needs (LocalSGD). Other tensors that it changes count
  /// as changed after the first two calls only.
  CapturedStep(Function function, std::vector<Tensor> fixed);

  /// Runs one step. Every call returns the same tensors, and the next call overwrites them.
  ///
  /// Shapes:  inputs as in the first call; they may be on a CPU, and are copied
  /// Throws:  ShapeError, DTypeError if an input differs from that of the first call; ValueError if
  ///          the number of inputs differs, or a fixed tensor was moved since the capture;
  ///          CudaError if the function does something that cannot be captured
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs, Where where = Where::current());

  /// True if calls are replays.
  bool is_captured() const { return capture_ != nullptr; }

  /// The number of kernels, copies and fills in a step; 0 before the capture.
  std::size_t num_nodes() const { return capture_ ? capture_->num_nodes() : 0; }

 private:
  void check_inputs(const std::vector<Tensor>& inputs, Where where) const;
  void check_fixed(Where where) const;
  void record(Where where);

  Function function_;
  std::vector<Tensor> fixed_;
  Device device_;
  bool called_ = false;
  std::vector<Tensor> inputs_;  // the inputs of the captured work
  std::vector<Tensor> results_;
  std::vector<const std::byte*> addresses_;  // of the fixed tensors, when captured
  std::vector<Tensor> changed_;              // the fixed tensors that the captured work changes
  std::unique_ptr<Capture> capture_;
};

}  // namespace ringrad::nn
