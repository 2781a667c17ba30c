#include "ringrad/data/loader.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "ringrad/core/pinned_memory.h"
#include "ringrad/data/prefetcher.h"
#include "ringrad/data/random_stream.h"

namespace ringrad {

static_assert(std::input_iterator<DataLoader::Iterator>);

void LoaderOptions::check(const char* loader, Where where) const {
  RINGRAD_CHECK(batch_size >= 1, ValueError, where, loader, ": batch_size must be at least 1; got ",
                batch_size);
  RINGRAD_CHECK(num_workers >= 0 && num_workers <= kMostWorkers, ValueError, where, loader,
                ": num_workers must be in [0, ", kMostWorkers, "]; got ", num_workers);
  RINGRAD_CHECK(prefetch >= 1 && prefetch <= kMostPrefetch, ValueError, where, loader,
                ": prefetch must be in [1, ", kMostPrefetch, "]; got ", prefetch);
  RINGRAD_CHECK(!pin_for || pin_for->is_cuda(), DeviceError, where, loader,
                ": pin_for must be a GPU; got ", *pin_for);
}

Batch LoaderOptions::finished(Batch batch, const SampleKeys& keys, Where where) const {
  Tensor& input = batch.tensors.front();
  input = apply(transforms, std::move(input), keys, where);
  if (pin_for)
    for (Tensor& tensor : batch.tensors) tensor = pin(tensor, *pin_for, where);
  return batch;
}

DataLoader::DataLoader(const Dataset& dataset, Sampler& sampler, LoaderOptions options, Where where)
    : dataset_(dataset), sampler_(sampler), options_(std::move(options)) {
  options_.check("DataLoader", where);
}

std::int64_t DataLoader::size() const { return num_batches(sampler_.size()); }

std::int64_t DataLoader::num_batches(std::int64_t num_indices) const {
  const std::int64_t full = num_indices / options_.batch_size;
  const bool rest = num_indices % options_.batch_size != 0;
  return full + (rest && !options_.drop_last);
}

DataLoader::Iterator DataLoader::begin(Where where) {
  const SamplerPosition from = sampler_.position();
  std::vector<std::int64_t> drawn = sampler_.indices();
  RINGRAD_CHECK(from.consumed > 0 || std::ssize(drawn) == sampler_.size(), ValueError, where,
                "DataLoader: the sampler must draw size() indices; got ", drawn.size(), " of ",
                sampler_.size());
  std::vector<std::int64_t> before = sampler_.earlier_draws(from);
  RINGRAD_CHECK(before.empty() || before.size() == drawn.size(), ValueError, where,
                "DataLoader: earlier_draws must count for each index; got ", before.size(),
                " counts and ", drawn.size(), " indices");
  const std::int64_t total = num_batches(std::ssize(drawn));
  auto make = [this, epoch = from.epoch, where, indices = std::move(drawn),
               earlier = std::move(before)](std::int64_t number) {
    const auto first = static_cast<std::size_t>(number * options_.batch_size);
    const auto part = [&](const std::vector<std::int64_t>& all) {
      const auto count = static_cast<std::size_t>(options_.batch_size);
      return all.empty() ? std::span(all)
                         : std::span(all).subspan(first, std::min(count, all.size() - first));
    };
    return make_batch({part(indices), epoch, options_.seed, part(earlier)}, where);
  };
  const std::int64_t window = std::int64_t{options_.num_workers} * options_.prefetch;
  auto batches =
      std::make_unique<Prefetcher>(total, std::move(make), options_.num_workers, window, where);
  sampler_.set_epoch(from.epoch + 1, where);
  return Iterator(*this, from, std::move(batches));
}

Batch DataLoader::make_batch(const SampleKeys& keys, Where where) const {
  Generator generator = keys.generator(0);  // transforms do not draw from it: apply() mixes seeds
  const DefaultGeneratorGuard guard(generator);
  Batch batch = dataset_.fetch(keys.indices, where);
  RINGRAD_CHECK(!batch.tensors.empty() && batch.input().defined(), ValueError, where,
                "DataLoader: the dataset's fetch must return a tensor; got none");
  return options_.finished(std::move(batch), keys, where);
}

}  // namespace ringrad
