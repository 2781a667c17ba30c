#include "ringrad/data/iterable_loader.h"

#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include "ringrad/data/prefetcher.h"
#include "ringrad/data/random_stream.h"

namespace ringrad {
namespace {

struct Numbered {
  Sample sample;
  std::int64_t number;  ///< in the epoch's order
};

// One rank's share of the rest of an epoch. A round is the next sample of each rank:
//
//     n = 3    0 1 2 | 3 4 5 | 6        rank 1:    1, 4, and by Tail: pad 0, drop and keep none
class Share {
 public:
  Share(const IterableDataset& dataset, Shard shard, const SamplerPosition& from,
        std::uint64_t seed, Where where)
      : dataset_(dataset),
        shard_(shard),
        epoch_(from.epoch),
        opening_(random_stream(seed, from.epoch)),
        generator_(opening_),
        round_(from.consumed) {
    const DefaultGeneratorGuard guard(generator_);
    stream_ = dataset.open(from.epoch, where);
    RINGRAD_CHECK(stream_ != nullptr, ValueError, where,
                  "IterableLoader: the dataset's open must return a stream; got none");
    has_ended_ = stream_->skip(from.consumed, where) < from.consumed;
  }

  std::optional<Numbered> next(Where where) {
    if (has_ended_) return std::nullopt;
    const DefaultGeneratorGuard guard(generator_);
    has_ended_ = true;  // also if something throws
    const std::int64_t before = stream_->skip(shard_.rank, where);
    std::optional<Sample> sample;
    if (before == shard_.rank) sample = stream_->next(where);
    const std::int64_t others = shard_.num_replicas - 1 - shard_.rank;
    const std::int64_t after = sample ? stream_->skip(others, where) : 0;
    const std::int64_t first = round_;
    round_ += shard_.num_replicas;
    has_ended_ = !sample || after < others;
    if (sample && (!has_ended_ || shard_.tail != Tail::drop))
      return Numbered{std::move(*sample), first + shard_.rank};
    if (sample || before == 0 || shard_.tail != Tail::pad) return std::nullopt;
    return repeated(shard_.rank - before, before, where);
  }

 private:
  // A sample of the epoch's front, for a round that has samples for the first `count` ranks alone.
  Numbered repeated(std::int64_t number, std::int64_t count, Where where) const {
    Generator generator = opening_;
    const DefaultGeneratorGuard guard(generator);
    const auto stream = dataset_.open(epoch_, where);
    stream->skip(number, where);
    std::optional<Sample> sample = stream->next(where);
    RINGRAD_CHECK(sample, ValueError, where,
                  "IterableLoader: with Tail::pad an epoch must have as many samples as replicas; "
                  "got ",
                  count, " and ", shard_.num_replicas);
    return {std::move(*sample), number};
  }

  const IterableDataset& dataset_;
  const Shard shard_;
  const std::int64_t epoch_;
  const Generator opening_;  // what an epoch's stream draws from, whichever thread reads it
  Generator generator_;      // the same, as far as stream_ has been read
  std::int64_t round_;       // the number of the round's first sample
  std::unique_ptr<SampleStream> stream_;
  bool has_ended_ = false;
};

}  // namespace

// Gives the threads of a pass the samples of their batches, in the order of the batches.
class IterableLoader::Reader {
 public:
  struct Samples {
    std::vector<Sample> samples;
    std::vector<std::int64_t> numbers;
  };

  Reader(const IterableDataset& dataset, Shard shard, const SamplerPosition& from,
         const LoaderOptions& options, Where where)
      : share_(dataset, shard, from, options.seed, where), batch_size_(options.batch_size) {}

  /// The samples of a batch: fewer at the end, none after it. Waits until those of the batches
  /// before have been read.
  Samples read(std::int64_t number, Where where) {
    std::unique_lock lock(mutex_);
    turn_ended_.wait(lock, [&] { return turn_ == number; });
    struct EndOfTurn {
      Reader& reader;
      ~EndOfTurn() {
        ++reader.turn_;
        reader.turn_ended_.notify_all();
      }
    } const end{*this};
    Samples result;
    while (std::ssize(result.samples) < batch_size_) {
      std::optional<Numbered> next = share_.next(where);
      if (!next) break;
      result.samples.push_back(std::move(next->sample));
      result.numbers.push_back(next->number);
    }
    return result;
  }

 private:
  std::mutex mutex_;
  std::condition_variable turn_ended_;
  // Guarded by mutex_:
  std::int64_t turn_ = 0;  ///< the batch whose samples are read next
  Share share_;

  const std::int64_t batch_size_;
};

IterableLoader::IterableLoader(const IterableDataset& dataset, Shard shard, LoaderOptions options,
                               Prepare prepare, Where where)
    : dataset_(dataset), shard_(shard), options_(std::move(options)), prepare_(std::move(prepare)) {
  RINGRAD_CHECK(shard.rank >= 0 && shard.rank < shard.num_replicas, ValueError, where,
                "IterableLoader: rank must be in [0, num_replicas); got ", shard.rank, " and ",
                shard.num_replicas);
  options_.check("IterableLoader", where);
}

IterableLoader::Iterator IterableLoader::begin(Where where) {
  const SamplerPosition from = next_pass_;
  const auto reader = std::make_shared<Reader>(dataset_, shard_, from, options_, where);
  auto make = [this, reader, epoch = from.epoch, where](std::int64_t number) {
    return make_batch(*reader, number, epoch, where);
  };
  const std::int64_t window = std::int64_t{options_.num_workers} * options_.prefetch;
  auto batches = std::make_unique<Prefetcher>(std::numeric_limits<std::int64_t>::max(),
                                              std::move(make), options_.num_workers, window, where);
  next_pass_ = {from.epoch + 1, 0};
  return Iterator(*this, from, std::move(batches));
}

void IterableLoader::set_position(const SamplerPosition& position, Where where) {
  RINGRAD_CHECK(position.epoch >= 0 && position.consumed >= 0, ValueError, where,
                "IterableLoader: epoch and consumed must not be negative; got ", position.epoch,
                " and ", position.consumed);
  next_pass_ = position;
  position_.reset();
}

SamplerPosition IterableLoader::after(const SamplerPosition& from) const {
  SamplerPosition next = from;
  std::int64_t count = 0;
  if (__builtin_mul_overflow(options_.batch_size, shard_.num_replicas, &count) ||
      __builtin_add_overflow(from.consumed, count, &next.consumed))
    next.consumed = std::numeric_limits<std::int64_t>::max();
  return next;
}

std::optional<Batch> IterableLoader::make_batch(Reader& reader, std::int64_t number,
                                                std::int64_t epoch, Where where) const {
  auto [samples, numbers] = reader.read(number, where);
  const bool is_full = std::ssize(samples) == options_.batch_size;
  if (samples.empty() || (options_.drop_last && !is_full)) return std::nullopt;
  const SampleKeys keys{numbers, epoch, options_.seed};
  Generator generator = keys.generator(0);
  const DefaultGeneratorGuard guard(generator);
  if (prepare_)
    for (Sample& sample : samples) sample = prepare_(std::move(sample), where);
  return options_.finished(collate(samples, where), keys, where);
}

}  // namespace ringrad
