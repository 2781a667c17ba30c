// HostRunner: runs plans on CPU memory, on the rank's own thread.
//
// Ranks read and write each other's memory without copies in between, and a rank returns only when
// no other rank uses its memory any more. Per rank, for an all_reduce of S bytes over n ranks:
//
//     two ranks, or two_shot    reads S, writes S, waits twice
//     ring of n                 reads 3 (n-1)/n S, writes 2 (n-1)/n S, waits 2 (n-1) times
//
// Tensors that fit an eager message (rank_group.h) need no plan, unless the user wants one: every
// rank adds all eager messages in rank order, with the bits of a canonical plan. It waits once, and
// no rank waits for it.
//
// Large buffers are cut into segments, so that one rank's sum is still in a cache when the next
// rank needs it.

#pragma once

#include <vector>

#include "ringrad/parallel/comm/memory/plan_runner.h"
#include "ringrad/parallel/comm/memory/rank_session.h"

namespace ringrad {

class HostRunner final : public PlanRunner {
 public:
  explicit HostRunner(RankSession& session) : session_(session), group_(session.group()) {}

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
  class Run;

  RankSession& session_;
  RankGroup& group_;
  std::vector<const std::byte*> terms_;  // of the sum at work, and where it goes
  std::vector<std::byte*> results_;
};

}  // namespace ringrad
