#include "ringrad/data/distributed_sampler.h"

#include <utility>

namespace ringrad {
namespace {

std::unique_ptr<const Sampler> sampler_of_all(std::int64_t num_samples, bool shuffle,
                                              std::uint64_t seed, Where where) {
  if (shuffle) return std::make_unique<RandomSampler>(num_samples, seed, where);
  return std::make_unique<SequentialSampler>(num_samples, where);
}

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t num_samples, Shard shard, bool shuffle,
                                       std::uint64_t seed, Where where)
    : DistributedSampler(sampler_of_all(num_samples, shuffle, seed, where), shard, where) {}

DistributedSampler::DistributedSampler(std::unique_ptr<const Sampler> whole, Shard shard,
                                       Where where)
    : whole_(std::move(whole)), shard_(shard), where_(where) {
  RINGRAD_CHECK(whole_, ValueError, where,
                "DistributedSampler: there must be a sampler to share out; got none");
  RINGRAD_CHECK(shard.num_replicas >= 1 && shard.num_replicas <= whole_->size(), ValueError, where,
                "DistributedSampler: num_replicas must be at least 1 and at most the number of "
                "samples; got ",
                shard.num_replicas, " replicas and ", whole_->size(), " samples");
  RINGRAD_CHECK(shard.rank >= 0 && shard.rank < shard.num_replicas, ValueError, where,
                "DistributedSampler: rank must be in [0, num_replicas); got rank ", shard.rank,
                " of ", shard.num_replicas);
}

// The number of samples, out of `count`, that are dealt to this rank.
std::int64_t DistributedSampler::share_of(std::int64_t count) const {
  const auto [num_replicas, rank, tail] = shard_;
  const std::int64_t left = count % num_replicas;
  const bool one_more = tail == Tail::pad ? left > 0 : tail == Tail::keep && rank < left;
  return count / num_replicas + one_more;
}

std::int64_t DistributedSampler::size() const { return share_of(whole_->size()); }

std::vector<std::int64_t> DistributedSampler::draw(std::int64_t epoch) const {
  return draw_rest({epoch, 0});
}

std::vector<std::int64_t> DistributedSampler::draw_rest(const SamplerPosition& from) const {
  const std::vector<std::int64_t> all = whole_->draw(from.epoch);
  RINGRAD_CHECK(std::ssize(all) == whole_->size(), ValueError, where_,
                "DistributedSampler: the sampler must draw size() indices; got ", all.size(),
                " of ", whole_->size());
  return deal(all, from.consumed);
}

std::vector<std::int64_t> DistributedSampler::earlier_draws(const SamplerPosition& from) const {
  const std::vector<std::int64_t> all = whole_->earlier_draws({from.epoch, 0});
  return all.empty() ? all : deal(all, from.consumed);
}

std::vector<std::int64_t> DistributedSampler::deal(const std::vector<std::int64_t>& all,
                                                   std::int64_t consumed) const {
  std::vector<std::int64_t> share(static_cast<std::size_t>(share_of(std::ssize(all) - consumed)));
  auto next = static_cast<std::size_t>(consumed + shard_.rank);
  for (std::int64_t& index : share) {
    index = all[next % all.size()];  // wraps around only in the padding
    next += static_cast<std::size_t>(shard_.num_replicas);
  }
  return share;
}

SamplerPosition DistributedSampler::after(const SamplerPosition& from, std::int64_t count) const {
  const std::int64_t left = num_samples() - from.consumed;
  const bool all_of_it = count > left / shard_.num_replicas;  // or more: the product could overflow
  return {from.epoch, from.consumed + (all_of_it ? left : count * shard_.num_replicas)};
}

}  // namespace ringrad
