// DeviceRunner: runs plans on the memory of GPUs. The host only queues work; events order it.
//
//     rank's stream   | sum c0 |      | sum c1 |      | send: record event 1 | ...
//                         ^ waits         ^
//     its copies      | c0 of peer -> slot 0 | c1 of peer -> slot 1 | ...
//                         ^ waits for the peer's event, recorded before the host saw it published
//
// A rank publishes a step when it has queued the step and recorded an event. A dependent rank waits
// for the publication on the host, and makes its stream wait for the event. No GPU work waits for
// work that is not yet queued, so no deadlock is possible, even if several ranks share a GPU. The
// inputs of sums are copied ahead of the sums, on a separate stream, through a few slots.
//
// A call returns when its work, and all work of other ranks that it depends on, is queued. Results
// are available to later work on the current stream, as with any operator.
//
// A thread that waits for the GPU also checks whether the other ranks live and the group is whole
// (rank_watch.h). If not, or if a call is not done a second after the deadline, counted
// from when the GPU reached it, kernels are told to end. Work that has not ended a second later is
// given up: the wait throws, and the work may stay on its stream forever, since a GPU's wait for a
// dead process cannot be ended.

#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/tensor.h"
#include "ringrad/kernels/library/shared_gpu.h"
#include "ringrad/parallel/comm/gpu/device_links.h"
#include "ringrad/parallel/comm/gpu/device_messages.h"
#include "ringrad/parallel/comm/gpu/kernel_all_reduce.h"
#include "ringrad/parallel/comm/gpu/rank_watch.h"
#include "ringrad/parallel/comm/memory/plan_runner.h"
#include "ringrad/parallel/comm/memory/rank_session.h"

namespace ringrad {

class DeviceRunner final : public PlanRunner {
 public:
  DeviceRunner(RankSession& session, Device device, Where where);
  /// Waits until the queued work is done, or given up as described above. The messages that a
  /// process has sent are lost when it ends, so the destructor first waits until they are taken or
  /// the deadline passes.
  ~DeviceRunner() override;

  Device device() const { return device_; }

  /// Ends kernels that wait for other ranks. Thread-safe.
  void abort() noexcept {
    if (has_met()) kernels_->abort();
  }
  /// True once queued work has ended without its result.
  bool gave_up() { return kernels_ && kernels_->gave_up(); }
  /// After the group broke: ends the queued work, and forgets that its results are missing.
  void leave_behind() noexcept;

  void meet(Operation& operation) override;
  /// True once a collective has introduced the ranks' GPUs to each other. From then on, messages
  /// from this GPU stay on it.
  bool has_met() const { return has_met_.load(std::memory_order_acquire); }

  /// Sends a message whose elements are on this GPU. REQUIRES: has_met()
  void send(MessageChannel& channel, Operation& operation, const std::byte* elements);
  /// Receives a message that wait_for_message has found on the sender's GPU under the name `sent`.
  /// A CPU tensor is complete when the call returns.
  ///
  /// REQUIRES: has_met(), as the sender has
  void receive(MessageChannel& channel, const Operation& operation, std::uintptr_t sent,
               const Tensor& tensor);

  std::shared_ptr<std::byte> allocate(std::size_t bytes, Where where) override;
  bool is_visible(const std::byte* p) const override;
  void clear(std::byte* p, std::size_t bytes, Where where) override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes, Where where) override;
  DType carrier(DType dtype, const PlanPrograms& programs) const override;
  void convert(DType from, const std::byte* in, DType to, std::byte* out, std::int64_t count,
               Where where) override;
  bool try_all_reduce(Operation& operation, std::byte* data) override;
  double seconds(const Operation& operation, const std::function<void()>& work) override;
  void run(const PlanPrograms& programs, Operation operation, PlanData data) override;

 private:
  // What is queued, and when this rank's GPU came to it, as far as is known.
  struct QueuedCall {
    Operation operation;
    Event reached, done;
    std::optional<std::chrono::steady_clock::time_point> since;
  };

  template <class Work>
  void reach_peers(const Operation& operation, Work work);
  bool has_company() const;
  void wait_until_messages_are_taken() noexcept;
  void queued(const Operation& operation, const Event& reached);
  bool is_waiting();
  bool drain() noexcept;

  RankSession& session_;
  const Device device_;
  std::unique_ptr<DeviceLinks> links_;
  const Stream copies_;
  std::optional<SharedGpu> shared_;         // if another rank has the same GPU
  std::optional<KernelAllReduce> kernels_;  // once the ranks have met
  std::optional<DeviceMessages> messages_;  // likewise
  std::atomic<bool> has_met_ = false;
  std::uint64_t num_runs_ = 0;
  bool has_given_up_ = false;  // on what was queued when a call failed

  std::mutex calls_mutex_;  // of the members below: threads that wait for the GPU read them
  std::deque<QueuedCall> calls_;
  std::chrono::steady_clock::time_point next_look_{};
  std::optional<std::chrono::steady_clock::time_point> broken_since_;

  RankWatch watch_;  // the last member: it is over before the others
};

}  // namespace ringrad
