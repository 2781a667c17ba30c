#include "ringrad/data/prefetcher.h"

#include <omp.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "ringrad/core/base/device.h"
#include "ringrad/core/grad_mode.h"
#include "ringrad/core/trace.h"

namespace ringrad {

Prefetcher::Prefetcher(std::int64_t count, Make make, int num_threads, std::int64_t window,
                       Where where)
    : make_(std::move(make)), end_(count) {
  if (num_threads == 0 || count == 0) return;
  slots_.resize(static_cast<std::size_t>(std::min(window, count)));
  const int team = std::max(1, omp_get_max_threads() / num_threads);
  try {
    for (int i = 0; i < num_threads; ++i)
      threads_.emplace_back([this, i, team, group = trace_group(), records = grad_enabled(),
                             device = default_device()] {
        const TraceThread name(group, concat("loader ", i));
        detail::grad_mode = records;
        set_default_device(device);
        omp_set_num_threads(team);
        work();
      });
  } catch (const std::system_error& error) {
    close();  // threads already started must not outlive this object
    throw ValueError(concat("loader: num_workers must be threads that the system can start; got ",
                            num_threads, " and \"", error.code().message(), '"'),
                     where);
  } catch (...) {
    close();
    throw;
  }
}

Prefetcher::~Prefetcher() { close(); }

void Prefetcher::close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    end_ = consumed_ = claimed_;
  }
  slot_freed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

Prefetcher::Slot Prefetcher::fill(std::int64_t number) const noexcept {
  const TraceSpan span("make batch", "data", [&] { return concat("\"number\":", number); });
  Slot slot;
  try {
    slot.batch = make_(number);
  } catch (...) {
    slot.error = std::current_exception();
  }
  slot.full = true;
  return slot;
}

void Prefetcher::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    slot_freed_.wait(
        lock, [this] { return claimed_ >= end_ || claimed_ < consumed_ + std::ssize(slots_); });
    if (claimed_ >= end_) return;
    const std::int64_t number = claimed_++;
    lock.unlock();
    Slot filled = fill(number);
    lock.lock();
    if (!filled.batch) end_ = claimed_;
    slot(number) = std::move(filled);
    if (number == consumed_) batch_made_.notify_one();
  }
}

std::optional<Batch> Prefetcher::next() {
  std::unique_lock lock(mutex_);
  if (consumed_ == end_) return std::nullopt;
  Slot due;
  if (threads_.empty()) {
    due = fill(claimed_++);
  } else {
    batch_made_.wait(lock, [this] { return slot(consumed_).full; });
    due = std::exchange(slot(consumed_), Slot());
  }
  ++consumed_;
  lock.unlock();
  slot_freed_.notify_one();
  if (!due.batch) close();
  if (due.error) std::rethrow_exception(std::move(due.error));
  return std::move(due.batch);
}

}  // namespace ringrad
