// IterableDataset: samples that come one after the other, whose number is known only at the end:
// lines of a log, records of an archive, what a simulation yields.
//
//     open(epoch)  ->  SampleStream    next(), next(), next(), ...    the end
//
// An epoch's samples and their order are a function of the epoch, the same on every rank. So the
// loader (iterable_loader.h) can deal them to ranks, and a run can resume in the middle of an epoch
// by skipping what has been consumed.
//
// While a loader opens a stream and reads it, default_generator() is a separate generator, which
// depends only on LoaderOptions::seed and the epoch. So it is the same on all ranks. A SampleStream
// that draws from it must not seek in skip(): a resumed run would draw other numbers.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "ringrad/core/base/error.h"
#include "ringrad/data/collate.h"

namespace ringrad {

/// The samples of one epoch, in order. One thread at a time uses it.
class SampleStream {
 public:
  virtual ~SampleStream() = default;

  /// The next sample; empty at the end, and from then on.
  virtual std::optional<Sample> next(Where where = Where::current()) = 0;

  /// Passes over the next `count` samples, or as many as are left, and returns their number. This
  /// implementation reads them; a stream that can seek should override it.
  virtual std::int64_t skip(std::int64_t count, Where where = Where::current());
};

class IterableDataset {
 public:
  virtual ~IterableDataset() = default;

  /// The stream of an epoch, from its first sample. Several may be open at once.
  virtual std::unique_ptr<SampleStream> open(std::int64_t epoch,
                                             Where where = Where::current()) const = 0;
};

}  // namespace ringrad
