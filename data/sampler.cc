#include "ringrad/data/sampler.h"

#include <algorithm>
#include <numeric>

#include "ringrad/core/random/random.h"
#include "ringrad/data/random_stream.h"

namespace ringrad {

std::vector<std::int64_t> Sampler::draw_rest(const SamplerPosition& from) const {
  std::vector<std::int64_t> indices = draw(from.epoch);
  indices.erase(indices.begin(), indices.begin() + std::min(from.consumed, std::ssize(indices)));
  return indices;
}

std::vector<std::int64_t> Sampler::earlier_draws(const SamplerPosition&) const { return {}; }

SamplerPosition Sampler::after(const SamplerPosition& from, std::int64_t count) const {
  return {from.epoch, from.consumed + std::min(count, num_samples() - from.consumed)};
}

void Sampler::set_position(const SamplerPosition& position, Where where) {
  RINGRAD_CHECK(position.epoch >= 0, ValueError, where,
                "set_position: epoch must not be negative; got ", position.epoch);
  RINGRAD_CHECK(position.consumed >= 0 && position.consumed <= num_samples(), ValueError, where,
                "set_position: consumed must be in [0, ", num_samples(),
                "], the samples of an epoch; got ", position.consumed);
  position_ = position;
}

void Sampler::set_epoch(std::int64_t epoch, Where where) {
  RINGRAD_CHECK(epoch >= 0, ValueError, where, "set_epoch: epoch must not be negative; got ",
                epoch);
  position_ = {epoch, 0};
}

SequentialSampler::SequentialSampler(std::int64_t num_samples, Where where)
    : num_samples_(num_samples) {
  RINGRAD_CHECK(num_samples >= 0, ValueError, where,
                "SequentialSampler: num_samples must not be negative; got ", num_samples);
}

std::vector<std::int64_t> SequentialSampler::draw(std::int64_t) const {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(num_samples_));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

RandomSampler::RandomSampler(std::int64_t num_samples, std::uint64_t seed, Where where)
    : num_samples_(num_samples), seed_(seed) {
  RINGRAD_CHECK(num_samples >= 0, ValueError, where,
                "RandomSampler: num_samples must not be negative; got ", num_samples);
}

std::vector<std::int64_t> RandomSampler::draw(std::int64_t epoch) const {
  Generator generator = random_stream(seed_, epoch);
  const DefaultDeviceGuard guard{Device()};  // a device that the host can read
  return randperm(num_samples_, generator).to_vector<std::int64_t>();
}

}  // namespace ringrad
