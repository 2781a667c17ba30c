// LoaderPass: the batches of one pass of a loader, as an iterator. loader.h and iterable_loader.h
// say what it does.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "ringrad/core/trace.h"
#include "ringrad/data/dataset.h"
#include "ringrad/data/prefetcher.h"
#include "ringrad/data/sampler.h"

namespace ringrad {

/// Loader has a member position_, the position of all ranks during a pass, and a member function
/// after(p), which returns the position one batch after p.
template <class Loader>
class LoaderPass {
 public:
  // What the standard library asks of an iterator.
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;

  const Batch& operator*() const { return *current_; }
  const Batch* operator->() const { return &*current_; }
  LoaderPass& operator++() {
    current_.reset();  // the batches being made can use its memory
    advance();
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return !current_; }

 private:
  friend Loader;
  LoaderPass(Loader& loader, const SamplerPosition& from, std::unique_ptr<Prefetcher> batches)
      : loader_(&loader), next_(from), batches_(std::move(batches)) {
    loader_->position_ = from;  // the position if the first batch cannot be made
    advance();
  }

  void advance() {
    const TraceSpan span("next batch", "data");
    current_ = batches_->next();
    loader_->position_.reset();
    if (!current_) return;
    next_ = loader_->after(next_);
    loader_->position_ = next_;
  }

  Loader* loader_;
  SamplerPosition next_;  // after the current batch
  std::unique_ptr<Prefetcher> batches_;
  std::optional<Batch> current_;
};

}  // namespace ringrad
