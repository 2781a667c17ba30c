// Fault points: places in the code at which a rank can be made to fail, by name.
//
//     ringrun -n 3 --inject kill:1@point=bucket_launched:5 ./train      (fault_injection.h)
//
// A passage costs one load and one branch. Tests set fault_handler themselves.

#pragma once

#include <atomic>
#include <string_view>

namespace ringrad {

enum class FaultPoint {
  /// DistributedDataParallel has handed a bucket of gradients to its communication hook
  bucket_launched,
  pipeline_action_done,  ///< a pipeline has performed one action of a training step
};

inline constexpr std::string_view kFaultPointNames[] = {"bucket_launched", "pipeline_action_done"};

constexpr std::string_view name(FaultPoint point) {
  return kFaultPointNames[static_cast<std::size_t>(point)];
}

/// What happens at fault points, on the thread that passes one; null in normal runs.
inline std::atomic<void (*)(FaultPoint)> fault_handler{nullptr};

inline void fault_point(FaultPoint point) {
  if (auto* const handler = fault_handler.load(std::memory_order_relaxed)) [[unlikely]]
    handler(point);
}

}  // namespace ringrad
