// RankNames: how messages name the ranks of a group: by their numbers in the job.
//
//     job        0   1   2   3   4   5
//     subgroup               0   1   2       RankNames({3, 4, 5})(1) == 4: "rank 4", not "rank 1"
//
// A group that is not made of another one has the job's numbers. split() and shrink() hand them
// down, so every group names a rank alike, and the reader of a message need not know which group
// wrote it.

#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ringrad {

class RankNames {
 public:
  /// Ranks that keep their own numbers.
  RankNames() = default;
  /// `in_job[r]` is the number of the group's rank r.
  explicit RankNames(std::vector<int> in_job) : in_job_(std::move(in_job)) {}

  /// The number of the group's rank in the job; -1 stays -1.
  int operator()(int rank) const {
    return in_job_.empty() || rank < 0 ? rank : in_job_[static_cast<std::size_t>(rank)];
  }

  /// The names for a smaller group that is made of these ranks in this order.
  RankNames of(std::span<const int> ranks) const;

  /// "rank 4" or "ranks 3, 5", for ranks of the group; of more than 9, the first 8: "ranks 0, 1, 2,
  /// 3, 4, 5, 6, 7 and 56 more".
  std::string list(std::span<const int> ranks) const;

 private:
  std::vector<int> in_job_;  // (world_size), or empty
};

}  // namespace ringrad
