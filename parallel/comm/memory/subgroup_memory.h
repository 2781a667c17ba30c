// SubgroupMemory: the memory of some ranks of a group, under the numbers they have in a smaller
// group.
//
// The state that the smaller group shares lies in the memory of one of its ranks. Its users are
// counted there: the ranks, and the memory that they have kept. The owner frees the state when it
// has no users.
//
//     [ users | what the group shares ... ]

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/common/own_process.h"
#include "ringrad/parallel/comm/memory/group_memory.h"

namespace ringrad {

class SubgroupMemory final : public GroupMemory {
 public:
  /// Takes the place of the count; what the group shares follows it.
  static constexpr std::size_t kHeaderBytes = 128;

  /// Makes the count at `begin`, for a group of so many ranks. One rank must do so before any other
  /// makes a SubgroupMemory of it.
  static void make_users(std::byte* begin, int num_ranks) { new (begin) Users(num_ranks); }
  /// True once every rank's SubgroupMemory has come and gone.
  static bool has_no_users(const std::byte* begin) {
    return reinterpret_cast<const Users*>(begin)->load(std::memory_order_acquire) == 0;
  }

  /// `ranks` are those of `whole`, in the order of the subgroup; at `begin` is the count.
  SubgroupMemory(std::shared_ptr<GroupMemory> whole, std::vector<int> ranks, std::byte* begin)
      : whole_(std::move(whole)),
        ranks_(std::move(ranks)),
        users_(*reinterpret_cast<Users*>(begin)),
        shared_(begin + kHeaderBytes) {}
  ~SubgroupMemory() override {
    if (in_own_process_) users_.fetch_sub(1, std::memory_order_acq_rel);
  }
  SubgroupMemory(const SubgroupMemory&) = delete;
  SubgroupMemory& operator=(const SubgroupMemory&) = delete;

  std::byte* shared() const override { return shared_; }
  std::uintptr_t base_of(int rank) const override { return whole_->base_of(in_whole(rank)); }
  bool is_visible(const void* p) const override { return whole_->is_visible(p); }
  std::shared_ptr<std::byte> allocate(std::size_t bytes, Where where) override {
    return whole_->allocate(bytes, where);
  }
  bool has_died(int rank) const override { return whole_->has_died(in_whole(rank)); }
  bool has_any_died() const override { return whole_->has_any_died(); }
  ProcessState state_of(int rank) const override { return whole_->state_of(in_whole(rank)); }
  void expel(int rank, const char* reason) noexcept override {
    whole_->expel(in_whole(rank), reason);
  }
  bool is_one_process() const override { return whole_->is_one_process(); }
  int num_processors() const override { return whole_->num_processors(); }
  // is_done() may look at what the group shares, so it counts as one of the group's users.
  void keep(std::shared_ptr<std::byte> memory, std::function<bool()> is_done) override {
    users_.fetch_add(1, std::memory_order_relaxed);
    whole_->keep(std::move(memory), [users = &users_, is_done = std::move(is_done)] {
      if (!is_done()) return false;
      users->fetch_sub(1, std::memory_order_acq_rel);
      return true;
    });
  }

 private:
  using Users = std::atomic<int>;
  static_assert(sizeof(Users) <= kHeaderBytes && Users::is_always_lock_free);

  int in_whole(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

  const std::shared_ptr<GroupMemory> whole_;
  const std::vector<int> ranks_;
  Users& users_;
  std::byte* const shared_;
  const OwnProcess in_own_process_;
};

}  // namespace ringrad
