// SubgroupMemory: the memory of some ranks of a group, under the numbers they have in a smaller
// one.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/memory/group_memory.h"

namespace ringrad {

class SubgroupMemory final : public GroupMemory {
 public:
  /// `ranks` are those of `whole`, in the order of the subgroup; `shared` is what the subgroup
  /// shares.
  SubgroupMemory(std::shared_ptr<GroupMemory> whole, std::vector<int> ranks, std::byte* shared)
      : whole_(std::move(whole)), ranks_(std::move(ranks)), shared_(shared) {}

  std::byte* shared() const override { return shared_; }
  std::uintptr_t base_of(int rank) const override { return whole_->base_of(in_whole(rank)); }
  bool is_visible(const void* p) const override { return whole_->is_visible(p); }
  std::shared_ptr<std::byte> allocate(std::size_t bytes, Where where) override {
    return whole_->allocate(bytes, where);
  }
  bool has_died(int rank) const override { return whole_->has_died(in_whole(rank)); }
  ProcessState state_of(int rank) const override { return whole_->state_of(in_whole(rank)); }
  void expel(int rank, const char* reason) noexcept override {
    whole_->expel(in_whole(rank), reason);
  }
  bool is_one_process() const override { return whole_->is_one_process(); }
  int num_processors() const override { return whole_->num_processors(); }
  void keep(std::shared_ptr<std::byte> memory) override { whole_->keep(std::move(memory)); }

 private:
  int in_whole(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

  const std::shared_ptr<GroupMemory> whole_;
  const std::vector<int> ranks_;
  std::byte* const shared_;
};

}  // namespace ringrad
