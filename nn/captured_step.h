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
//         net.parameters());
//     for (...) print(step({x, y})[0].item());
//
// A small network's step is hundreds of short kernels, and the GPU waits for the host to name them one by
// one. Here the first call runs the function as it is, the second one captures what it queues and runs
// that, and from then on a call is one launch. Every call is one training step, with the same bits as
// without capture. On a CPU every call runs the function.
//
//     call      1        2                  3        4
//     host      step()   step() noted
//     device    step     replay             replay   replay
//
// The captured work is a list of kernels and addresses, so what the host did beside it does not happen
// again: the function must not decide by values, print, or count. What the library does on the host
// at each step - random numbers, the optimizer's learning rate and number of steps - reaches the device
// nevertheless. What cannot be repeated throws: reading a tensor on the host, another shape, a
// parameter that was moved.

#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/capture.h"
#include "core/tensor.h"

namespace ringrad::nn {

class CapturedStep {
 public:
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

  /// `fixed` are tensors that the function uses besides its inputs, and that must stay where they are:
  /// the parameters and buffers.
  CapturedStep(Function function, std::vector<Tensor> fixed);

  /// One step. The results are the same tensors at each call, which the next one overwrites.
  ///
  /// Shapes:  inputs as in the first call; they may be on a CPU, and are copied
  /// Throws:  ShapeError, DTypeError if an input is not like that of the first call; ValueError if there
  ///          is another number of them, or a fixed tensor was moved since the capture; CudaError
  ///          if the function does what cannot be captured
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs, Where where = Where::current());

  /// True once steps are replayed.
  bool is_captured() const { return capture_ != nullptr; }

  /// How many kernels, copies and fills a step is; 0 before it was captured.
  std::size_t num_nodes() const { return capture_ ? capture_->num_nodes() : 0; }

 private:
  void check_inputs(const std::vector<Tensor>& inputs, Where where) const;
  void check_fixed(Where where) const;
  void record(Where where);

  Function function_;
  std::vector<Tensor> fixed_;
  Device device_;
  bool called_ = false;
  std::vector<Tensor> inputs_;  // what the captured work reads
  std::vector<Tensor> results_;
  std::vector<const std::byte*> addresses_;  // of the fixed tensors, when captured
  std::unique_ptr<Capture> capture_;
};

}  // namespace ringrad::nn
