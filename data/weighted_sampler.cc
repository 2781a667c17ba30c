#include "ringrad/data/weighted_sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <numeric>
#include <utility>

#include "ringrad/data/random_stream.h"

namespace ringrad {
namespace {

void check_weights(const std::vector<double>& weights, Where where) {
  for (std::size_t i = 0; i < weights.size(); ++i)
    RINGRAD_CHECK(std::isfinite(weights[i]) && weights[i] >= 0, ValueError, where,
                  "WeightedRandomSampler: weights must be finite and not negative; got ",
                  weights[i], " for sample ", i);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  RINGRAD_CHECK(sum > 0 && std::isfinite(sum), ValueError, where,
                "WeightedRandomSampler: the sum of weights must be positive and finite; got ", sum,
                " for ", weights.size(), " weights");
}

// Inverts the running sums: sample i owns [sums[i - 1], sums[i]), which is empty for weight 0. The
// sums are of weights times a power of two, since points among subnormal numbers would be rounded.
std::vector<std::int64_t> draw_with_replacement(const std::vector<double>& weights,
                                                std::int64_t num_draws, Generator& generator) {
  const int exponent = std::ilogb(std::ranges::max(weights));
  std::vector<double> sums(weights);
  for (double& weight : sums) weight = std::scalbn(weight, -exponent);
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  const auto owner = [&](double point) {
    return std::upper_bound(sums.begin(), sums.end(), point) - sums.begin();
  };
  // The greatest point is below the last sum, unless the product rounds up to that sum.
  const double greatest = std::nextafter(sums.back(), 0.0);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(num_draws));
  for (std::int64_t& index : indices)
    index = owner(std::min(draw_unit(generator) * sums.back(), greatest));
  return indices;
}

// A race: sample i arrives after an exponentially distributed time of rate weights[i]. Sample i
// arrives first with probability weights[i] / sum. Since the exponential distribution has no
// memory, the same holds for the second among the rest, and so on. The logarithms of times are
// compared, since the time itself is infinite for a tiny weight.
std::vector<std::int64_t> draw_without_replacement(const std::vector<double>& weights,
                                                   std::int64_t num_draws, Generator& generator) {
  struct Arrival {
    double log_time;
    std::int64_t index;
    auto operator<=>(const Arrival&) const = default;
  };
  std::vector<Arrival> arrivals;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double time = -std::log1p(-draw_unit(generator));
    if (weights[i] > 0)
      arrivals.push_back({std::log(time) - std::log(weights[i]), static_cast<std::int64_t>(i)});
  }
  const auto last = arrivals.begin() + num_draws;
  std::partial_sort(arrivals.begin(), last, arrivals.end());
  std::vector<std::int64_t> indices;
  for (auto arrival = arrivals.begin(); arrival != last; ++arrival)
    indices.push_back(arrival->index);
  return indices;
}

}  // namespace

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, std::int64_t num_draws,
                                             Replacement replacement, std::uint64_t seed,
                                             Where where)
    : weights_(std::move(weights)), num_draws_(num_draws), replacement_(replacement), seed_(seed) {
  check_weights(weights_, where);
  RINGRAD_CHECK(num_draws >= 1, ValueError, where,
                "WeightedRandomSampler: num_draws must be at least 1; got ", num_draws);
  if (replacement == Replacement::with) return;
  const auto drawable =
      std::count_if(weights_.begin(), weights_.end(), [](double w) { return w > 0; });
  RINGRAD_CHECK(num_draws <= drawable, ValueError, where,
                "WeightedRandomSampler: without replacement there must be at least as many "
                "positive weights as draws; got ",
                drawable, " positive weights and ", num_draws, " draws");
}

std::vector<std::int64_t> WeightedRandomSampler::draw(std::int64_t epoch) const {
  Generator generator = random_stream(seed_, epoch);
  return replacement_ == Replacement::with
             ? draw_with_replacement(weights_, num_draws_, generator)
             : draw_without_replacement(weights_, num_draws_, generator);
}

std::vector<std::int64_t> WeightedRandomSampler::earlier_draws(const SamplerPosition& from) const {
  if (replacement_ == Replacement::without) return {};
  std::vector<std::int64_t> counts(weights_.size()), earlier = draw(from.epoch);
  for (std::int64_t& index : earlier) index = counts[static_cast<std::size_t>(index)]++;
  earlier.erase(earlier.begin(), earlier.begin() + from.consumed);
  return earlier;
}

DistributedSampler distributed_weighted_sampler(std::vector<double> weights, std::int64_t num_draws,
                                                Shard shard, Replacement replacement,
                                                std::uint64_t seed, Where where) {
  return DistributedSampler(std::make_unique<WeightedRandomSampler>(std::move(weights), num_draws,
                                                                    replacement, seed, where),
                            shard, where);
}

}  // namespace ringrad
