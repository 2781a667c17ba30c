// PlanRunner: carries plans out, by the rules of plan_program.h. There is one for each kind of
// memory:
//
//     HostRunner      the rank's own thread copies and adds, one instruction after the other
//     DeviceRunner    queues copies and kernels on a GPU; events keep them in order
//
// The collectives are written once, over this (plan_collectives.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "ringrad/core/dtype.h"
#include "ringrad/parallel/comm/memory/plan_program.h"
#include "ringrad/parallel/comm/memory/rank_group.h"

namespace ringrad {

/// What a plan runs on: this rank's memory, and how a buffer is cut.
struct PlanData {
  std::byte* buffer = nullptr;
  std::byte* staging = nullptr;  ///< null: made if the plan needs it
  DType dtype = DType::float32;
  std::int64_t count = 0;
  int num_parts = 1;
  std::int64_t granule = 1;  ///< elements: parts begin at multiples of it

  /// Cuts the buffer as the programs want it. Shares are cut as the caller's tensors are.
  void cut_for(const PlanPrograms& programs) {
    num_parts = programs.num_parts;
    granule =
        programs.has_shares ? 1 : kChunkAlignment / static_cast<std::int64_t>(size_bytes(dtype));
  }

  // In an all_to_all `count` is a multiple of num_parts, so parts beyond the buffer's end have the
  // size of the others.
  ElementRange range(int part) const { return chunk_range(count, num_parts, part, granule); }
};

class PlanRunner {
 public:
  virtual ~PlanRunner() = default;

  /// Called on all ranks at the beginning of each collective, before all else.
  virtual void meet(Operation& /*operation*/) {}

  /// Memory that other ranks reach. Throws: OutOfMemoryError
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes, Where where) = 0;
  /// True if other ranks reach p, an address in this rank's memory.
  virtual bool is_visible(const std::byte* p) const = 0;
  virtual void clear(std::byte* p, std::size_t bytes, Where where) = 0;
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes, Where where) = 0;

  /// The dtype in which values of `dtype` travel when a plan adds them.
  virtual DType carrier(DType dtype, const PlanPrograms& programs) const = 0;
  /// Copies elements from a dtype to its carrier, or from the carrier to the dtype.
  virtual void convert(DType from, const std::byte* in, DType to, std::byte* out,
                       std::int64_t count, Where where) = 0;

  /// If possible without a plan, runs the all_reduce of `data` that `operation` begins. Returns
  /// true on all ranks or on none.
  virtual bool try_all_reduce(Operation& /*operation*/, std::byte* /*data*/) { return false; }

  /// How long `work`, which runs plans, takes on the device of the data. On simulated GPUs the time
  /// is simulated.
  virtual double seconds(const Operation& operation, const std::function<void()>& work) = 0;

  /// Returns when this rank's memory is its own again. REQUIRES: data.buffer is visible
  ///
  /// Throws: CollectiveError
  virtual void run(const PlanPrograms& programs, Operation operation, PlanData data) = 0;
};

}  // namespace ringrad
