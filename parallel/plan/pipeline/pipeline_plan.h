// A pipeline schedule as a value: which device computes what for which micro-batch, in which order.
//
// A model is cut into stages, a batch into micro-batches. Stage s runs on device s mod p; with v
// stages per device they are interleaved. Forward passes go from stage to stage, backward passes
// the same way back:
//
//     device 0   F0 F1 F2 F3             B0    B1    B2    B3      GPipe, p = 2, m = 4: F3 is the
//     device 1      F0 F1 F2 F3 B0    B1    B2    B3               forward pass of micro-batch 3
//
// Like a collective's plan this is data, made by a pure function (pipeline_schedules.h). It can be
// printed, compared, proved (pipeline_check.h), timed (pipeline_cost.h) and run. A schedule of your
// own is a list like any other.
//
// The machine that it is written for: every device has a list of actions, which it takes in order,
// and channels to the other devices. Each ordered pair has one channel for activations and one for
// gradients, both first in first out. Messages are actions:
//
//   forward s b            stage s computes micro-batch b, and keeps what backward will need
//   backward s b           the gradients of s's input and weights; releases what forward kept
//   backward_input s b     only the gradient of the input: the previous stage waits for it
//   backward_weight s b    only those of the weights, any time later; releases what forward kept
//   send_activation s b    the output of forward s b, to stage s + 1, on another device
//   recv_activation s b    the input of stage s for micro-batch b, from stage s - 1
//   send_gradient s b      the gradient of the input from backward s b, to stage s - 1
//   recv_gradient s b      the gradient of the output of stage s, from stage s + 1

#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace ringrad {

enum class PipelineOp : std::uint8_t {
  forward,
  backward,
  backward_input,
  backward_weight,
  send_activation,
  recv_activation,
  send_gradient,
  recv_gradient,
};

constexpr bool is_compute(PipelineOp op) { return op <= PipelineOp::backward_weight; }

struct PipelineAction {
  PipelineOp op = PipelineOp::forward;
  int stage = 0;
  int micro_batch = 0;

  bool operator==(const PipelineAction&) const = default;
};

struct PipelinePlan {
  std::string schedule;  ///< "gpipe", "1f1b", or the name of your own
  int num_devices = 1;
  int num_stages = 1;  ///< a multiple of num_devices
  int num_micro_batches = 1;
  std::vector<std::vector<PipelineAction>> actions;  ///< (num_devices), each in its order

  int device_of(int stage) const { return stage % num_devices; }
  bool operator==(const PipelinePlan&) const = default;
};

/// A plan without actions.
///
/// Throws: std::invalid_argument unless num_devices, stages_per_device and num_micro_batches are
///         positive
PipelinePlan empty_pipeline_plan(std::string schedule, int num_devices, int stages_per_device,
                                 int num_micro_batches);

/// The plan with its messages: whatever another device needs is sent as soon as it is made, and
/// received just before it is used.
///
/// Throws: std::invalid_argument if the plan has messages already
PipelinePlan with_messages(const PipelinePlan& plan);

/// True if the plan has actions that send or receive.
bool has_messages(const PipelinePlan& plan);

const char* name(PipelineOp op);

/// "forward stage 2 micro-batch 0"
std::ostream& operator<<(std::ostream& out, const PipelineAction& action);

/// A line per device: "device 0: F0.0 F0.1 B0.0 ...", stage before micro-batch; I and W are the
/// halves of B.
std::ostream& operator<<(std::ostream& out, const PipelinePlan& plan);

}  // namespace ringrad
