// DeviceRunner: plans on the memory of GPUs. The host only queues; events keep the order.
//
//     rank's stream   | sum c0 |      | sum c1 |      | send: record event 1 | ...
//                         ^ waits         ^
//     its copies      | c0 of peer -> slot 0 | c1 of peer -> slot 1 | ...
//                         ^ waits for the peer's event, which was recorded before the host saw it published
//
// A rank publishes a step when it has queued it and recorded an event; a rank that depends on it waits for the
// publication on the host, and has its stream wait for the event. Nothing on a GPU waits for what is not yet
// queued, so nothing can deadlock, whatever shares the GPU: several ranks may be on one. Copies of what a sum
// needs run ahead of the sums, on a stream of their own, through a few slots.
//
// A call returns when its work is queued, and every other rank's that it depends on: results are there for
// later work on the current stream, as with any operator.

#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "core/stream.h"
#include "parallel/comm/device_links.h"
#include "parallel/comm/kernel_all_reduce.h"
#include "parallel/comm/plan_runner.h"
#include "parallel/comm/rank_session.h"

namespace ringrad {

class DeviceRunner final : public PlanRunner {
 public:
  DeviceRunner(RankSession& session, Device device, Where where);

  Device device() const { return device_; }

  /// Ends kernels that wait for other ranks. Thread-safe.
  void abort() noexcept {
    if (has_met_.load(std::memory_order_acquire)) kernels_->abort();
  }
  /// True once what was queued has ended without its result.
  bool gave_up() { return kernels_ && kernels_->gave_up(); }

  void meet(Operation& operation) override;

  std::shared_ptr<std::byte> allocate(std::size_t bytes, Where where) override;
  bool is_visible(const std::byte* p) const override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes, Where where) override;
  DType carrier(DType dtype, const PlanPrograms& programs) const override;
  void to_carrier(DType dtype, const std::byte* in, DType carrier, std::byte* out,
                  std::int64_t count, Where where) override;
  void from_carrier(DType carrier, const std::byte* in, DType dtype, std::byte* out,
                    std::int64_t count, Where where) override;
  bool try_all_reduce(Operation& operation, std::byte* data) override {
    refuse_while_capturing("a collective", operation.where);
    return kernels_->try_run(operation, data);
  }
  double seconds(const Operation& operation, const std::function<void()>& work) override;
  void run(const PlanPrograms& programs, Operation operation, PlanData data) override;

 private:
  class Run;

  RankSession& session_;
  const Device device_;
  const std::unique_ptr<DeviceLinks> links_;
  const Stream copies_;
  std::optional<KernelAllReduce> kernels_;  // once the ranks have met
  std::atomic<bool> has_met_ = false;
  std::uint64_t num_runs_ = 0;
};

}  // namespace ringrad
