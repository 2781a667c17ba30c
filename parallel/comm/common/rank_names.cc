#include "ringrad/parallel/comm/common/rank_names.h"

namespace ringrad {

RankNames RankNames::of(std::span<const int> ranks) const {
  std::vector<int> in_job;
  for (const int rank : ranks) in_job.push_back((*this)(rank));
  return RankNames(std::move(in_job));
}

std::string RankNames::list(std::span<const int> ranks) const {
  constexpr std::size_t kMostListed = 8;
  // "and 1 more" is no shorter than the one.
  const std::size_t num_listed = ranks.size() <= kMostListed + 1 ? ranks.size() : kMostListed;
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < num_listed; ++i)
    text += (i == 0 ? " " : ", ") + std::to_string((*this)(ranks[i]));
  if (num_listed < ranks.size())
    text += " and " + std::to_string(ranks.size() - num_listed) + " more";
  return text;
}

}  // namespace ringrad
