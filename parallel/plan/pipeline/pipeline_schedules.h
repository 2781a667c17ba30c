// The schedules: p devices, v stages on each, m micro-batches. The functions are pure, and their
// plans have no messages yet: with_messages adds them. A unit is the time of a micro-batch's
// forward pass through all stages of a device; its backward pass takes two. Lists are for p = 4,
// m = 8, and interleaved's for v = 2:
//
//     schedule       bubble, units     kept per device     device 0
//     gpipe          3 (p - 1)         m                   F0 ... F7 B0 ... B7
//     1f1b           3 (p - 1)         p - device          F0 F1 F2 F3 B0 F4 B1 F5 ...
//     interleaved    3 (p - 1) / v     more                F0.0 ... F0.3 F4.0 ...   stage 0, then 4
//     zero_bubble      (p - 1)         p                   F0 F1 F2 F3 I0 W0 F4 I1 ...
//
// A bubble is time in which a device waits for others. The fraction of time lost to it is bubble /
// (3 m + bubble).
//
// Papers: Huang et al. 2019, "GPipe", arXiv:1811.06965; Narayanan et al. 2021, "Efficient
//         Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", arXiv:2104.04473
//         (1f1b and interleaved); Qi et al. 2023, "Zero Bubble Pipeline Parallelism",
//         arXiv:2401.10241 (ZB-H1)

#pragma once

#include <string>
#include <vector>

#include "ringrad/parallel/plan/pipeline/pipeline_plan.h"

namespace ringrad {

/// All forward passes, then all backward passes. As in every schedule here, a stage's backward
/// passes go from the first micro-batch to the last, so that gradients are always added in one
/// order and have the same bits.
///
/// Throws: std::invalid_argument, here and below, unless all numbers are positive
PipelinePlan gpipe(int num_devices, int num_micro_batches);

/// One forward, one backward. A device alternates as soon as it has done the forward passes that
/// later devices need to be busy, so it keeps at most p - device micro-batches.
PipelinePlan one_forward_one_backward(int num_devices, int num_micro_batches);

/// The same with v stages per device. Each stage is 1/v as long, and so is the wait until the first
/// micro-batch has reached the last device. Micro-batches pass in groups of p through a device's
/// stages.
///
/// Throws: std::invalid_argument also unless num_micro_batches is a multiple of num_devices
PipelinePlan interleaved(int num_devices, int stages_per_device, int num_micro_batches);

/// 1F1B with backward in two halves: other devices wait for the gradient of the input only. Device
/// d is d micro-batches late with the gradients of weights, and computes these at the end, where it
/// would otherwise wait. Every device therefore keeps p micro-batches, as device 0 does in any
/// case.
PipelinePlan zero_bubble(int num_devices, int num_micro_batches);

/// The names of all schedules, in the order of the table in pipeline_schedules.cc.
std::vector<std::string> pipeline_schedule_names();

/// True if a schedule can have more than one stage on a device.
///
/// Throws: std::invalid_argument for an unknown name
bool takes_several_stages(const std::string& schedule);

/// A schedule by its name.
///
/// Throws: std::invalid_argument also for an unknown name, or stages_per_device > 1 unless
///         takes_several_stages(schedule)
PipelinePlan make_pipeline_plan(const std::string& schedule, int num_devices, int stages_per_device,
                                int num_micro_batches);

}  // namespace ringrad
