#include "ringrad/parallel/comm/common/rank_names.h"

namespace ringrad {

RankNames RankNames::of(std::span<const int> ranks) const {
  std::vector<int> in_job;
  for (const int rank : ranks) in_job.push_back((*this)(rank));
  return RankNames(std::move(in_job));
}

std::string RankNames::list(std::span<const int> ranks) const {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? " " : ", ") + std::to_string((*this)(ranks[i]));
  return text;
}

}  // namespace ringrad
