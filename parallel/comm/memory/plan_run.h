// PlanRun: one rank's way through a plan, by the rules of plan_program.h: when it stages, enters,
// receives, publishes and waits. A subclass carries the steps out:
//
//     host_runner.cc    the rank's own thread copies and adds
//     device_run.h      copies and kernels are queued on a GPU, and events order them
//
//     stage the leading chunks -> enter -> { stage, receive, publish } ... -> wait for last reads

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ringrad/parallel/comm/memory/plan_runner.h"
#include "ringrad/parallel/comm/memory/rank_session.h"

namespace ringrad {

class PlanRun {
 public:
  /// REQUIRES: data.buffer is memory of `runner` that other ranks reach. `operation` outlives this.
  ///
  /// Throws: OutOfMemoryError
  PlanRun(RankSession& session, PlanRunner& runner, const PlanPrograms& programs,
          Operation& operation, PlanData data);
  virtual ~PlanRun() = default;
  PlanRun(const PlanRun&) = delete;
  PlanRun& operator=(const PlanRun&) = delete;

  /// Returns after this rank's last step, when no rank will read its memory any more.
  ///
  /// REQUIRES: a RankGroup::Inside lives, and is destroyed before this object
  /// Throws: CollectiveError; CudaError
  void walk();

 protected:
  /// Copies a chunk to the place of its copy.
  virtual void stage(const Instruction& instruction) = 0;
  /// Waits for the instruction's terms, and copies or adds them.
  virtual void receive(const Instruction& instruction) = 0;
  /// Called before the rank publishes for the n-th time, from 0; entering is the first.
  virtual void before_publication(std::size_t /*n*/) {}
  /// Makes all later work begin only after the milestone.
  virtual void wait_for(const Milestone& milestone) = 0;
  /// The name by which other ranks reach this rank's memory, and the address of such a name.
  virtual std::uintptr_t name_of(const std::byte* own) const = 0;
  virtual std::byte* reach(int peer, std::uintptr_t name) const = 0;

  int rank() const { return session_.rank(); }
  /// Where an element of an area of any rank lies.
  std::byte* address(int peer, Area area, std::int64_t element) const;

  RankSession& session_;
  RankGroup& group_;
  const PlanPrograms& programs_;
  const PlanProgram& program_;  // this rank's
  Operation& operation_;
  PlanData data_;
  std::uint64_t entered_ = 0;  // the rank's progress when it enters

 private:
  std::shared_ptr<std::byte> staging_;  // until the run ends other ranks may read it
};

}  // namespace ringrad
