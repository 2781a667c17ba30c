// DeviceRun: one run of a plan by one rank, as work on its GPU's streams (device_runner.h).

#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/gpu/device_links.h"
#include "ringrad/parallel/comm/memory/plan_run.h"

namespace ringrad {

/// How long a rank waits after a failure for what it has queued.
inline constexpr std::chrono::seconds kLongestSettling{1};

class DeviceRun final : public PlanRun {
 public:
  /// `number` counts the runs of the group: ranks may still wait for events of the run before it,
  /// so the next run records other events.
  ///
  /// Throws: ValueError if the plan has more messages per rank than there are events;
  ///         OutOfMemoryError
  DeviceRun(RankSession& session, PlanRunner& runner, DeviceLinks& links, Device device,
            const Stream& copies, std::uint64_t number, const PlanPrograms& programs,
            Operation& operation, const PlanData& data);

  /// After a failure, when no rank queues work any more: waits for the queued work, which must end
  /// before memory is freed. Returns false if it does not, because it depends on the work of a
  /// process that has died.
  bool settle() noexcept;

 private:
  // Memory for one term of a sum that is copied here.
  struct Slot {
    std::shared_ptr<std::byte> place;
    std::optional<Event> free;  // when what is in it has been added
  };

  void stage(const Instruction& instruction) override;
  void receive(const Instruction& instruction) override;
  void before_publication(std::size_t n) override;
  void wait_for(const Milestone& milestone) override { wait_on(sums_, milestone); }
  std::uintptr_t name_of(const std::byte* own) const override { return links_.name(own); }
  std::byte* reach(int peer, std::uintptr_t name) const override {
    return links_.address(peer, name);
  }

  std::byte* at(int peer, ChunkPlace place) const {
    return address(peer, place.area, data_.range(place.part).begin);
  }
  std::size_t bytes_of(int part) const {
    return static_cast<std::size_t>(data_.range(part).size()) * size_bytes(data_.dtype);
  }

  void wait_for_publication(int peer, std::size_t publication, const Stream& stream);
  void wait_on(const Stream& stream, const Milestone& milestone);
  void copy(std::byte* to, const std::byte* from, std::size_t bytes, const Stream& stream);
  void add(const Instruction& instruction, const std::vector<const std::byte*>& terms,
           std::size_t bytes);
  bool reads_directly(int peer) const;
  Slot& fetch(const std::byte* term, const Milestone& ready, std::size_t bytes);
  void make_slots();

  DeviceLinks& links_;
  const Device device_;
  const Where where_;
  const Stream sums_, copies_;
  const std::size_t first_event_;
  std::vector<std::size_t> seen_by_sums_, seen_by_copies_;  // (world_size) publications
  std::vector<Slot> slots_;
  std::size_t next_slot_ = 0;
};

}  // namespace ringrad
