#include "ringrad/core/gpu/device_watch.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringrad/core/gpu/cuda_check.h"
#include "ringrad/core/gpu/stream.h"

namespace ringrad {

void throw_late_rank(const LateRank& late) {
  const bool of_one = late.peer >= 0;
  const char* found = late.aborted ? "; got a broken group" : "; got nothing";
  const std::string whom =
      of_one ? concat(late.aborted ? " while waiting for rank " : " from rank ", late.peer) : "";
  throw CollectiveError(
      concat(late.operation, " #", late.sequence, " on rank ", late.rank,
             ": every rank must arrive on its GPU within ", late.seconds, " s", found, whom),
      late.where);
}

// --- All watches of the process ---

struct DeviceWatch::Watch {
  Watch(Device device, LateNote* note, Look look)
      : device(device), note(note), look(std::move(look)) {}

  const Device device;
  LateNote* const note;
  std::atomic<std::thread::id> owner;
  std::mutex mutex;  // guards the members below
  Look look;         // empty after the watch's end
  bool abandoned = false;

  bool has_note() const { return state().load(std::memory_order_acquire) == LateNote::kNoted; }
  bool is_over() {
    const std::lock_guard lock(mutex);
    return !look && !has_note();
  }
  bool is_waiting() {
    const std::lock_guard lock(mutex);
    return look && look();
  }
  std::atomic_ref<unsigned> state() const { return std::atomic_ref(note->state); }
};

namespace {

using Watch = DeviceWatch::Watch;

// Never destroyed, because ranks may end after all static objects.
struct Registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<Watch>> watches;
  std::vector<LateNote*> free_notes;  // reused, because freeing pinned memory waits for the GPUs
};
Registry& registry() {
  static auto& all = *new Registry;
  return all;
}
std::atomic<bool> has_watches = false;  // true from the first watch on

LateNote* take_note(Device device, Where where) {
  {
    const std::lock_guard lock(registry().mutex);
    std::vector<LateNote*>& free = registry().free_notes;
    if (!free.empty()) {
      LateNote* const note = free.back();
      free.pop_back();
      return note;
    }
  }
  const DeviceGuard guard(device, where);
  void* memory = nullptr;
  RINGRAD_CUDA_CHECK(
      cudaHostAlloc(&memory, sizeof(LateNote), cudaHostAllocPortable | cudaHostAllocMapped), where);
  return new (memory) LateNote{};
}

// The watches of this thread, or all watches if the thread has none.
std::vector<std::shared_ptr<Watch>> watches_on(Device device) {
  if (!has_watches.load(std::memory_order_acquire)) return {};
  std::vector<std::shared_ptr<Watch>> all, own;
  const std::lock_guard lock(registry().mutex);
  for (const std::shared_ptr<Watch>& watch : registry().watches) {
    if (watch->device != device) continue;
    all.push_back(watch);
    if (watch->owner.load(std::memory_order_relaxed) == std::this_thread::get_id())
      own.push_back(watch);
  }
  return own.empty() ? all : own;
}

void drop_what_is_over() {
  const std::lock_guard lock(registry().mutex);
  std::erase_if(registry().watches, [](const auto& watch) {
    if (!watch->is_over()) return false;
    if (!watch->abandoned) registry().free_notes.push_back(watch->note);
    return true;
  });
}

}  // namespace

void watch_ranks(Device device, const std::function<bool()>& is_done) {
  const auto watches = watches_on(device);
  while (std::ranges::any_of(watches, [](const auto& watch) { return watch->is_waiting(); }) &&
         !is_done())
    std::this_thread::yield();
}

void throw_late_note(Device device) {
  for (const auto& watch : watches_on(device)) {
    if (!watch->has_note()) continue;
    const LateRank late = watch->note->late;
    unsigned noted = LateNote::kNoted;
    if (watch->state().compare_exchange_strong(noted, LateNote::kNone)) throw_late_rank(late);
  }
}

// --- One watch ---

DeviceWatch::DeviceWatch(Device device, Look look, Where where)
    : watch_(std::make_shared<Watch>(device, take_note(device, where), std::move(look))) {
  drop_what_is_over();
  claim();
  const std::lock_guard lock(registry().mutex);
  registry().watches.push_back(watch_);
  has_watches.store(true, std::memory_order_release);
}

DeviceWatch::~DeviceWatch() {
  {
    const std::lock_guard lock(watch_->mutex);
    watch_->look = nullptr;
  }
  drop_what_is_over();
}

void DeviceWatch::claim() {
  watch_->owner.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

LateNote* DeviceWatch::note() const { return watch_->note; }

void DeviceWatch::leave_note(const LateRank& late) {
  unsigned nothing = LateNote::kNone;
  if (!watch_->state().compare_exchange_strong(nothing, LateNote::kInWriting)) return;
  watch_->note->late = late;
  watch_->state().store(LateNote::kNoted, std::memory_order_release);
}

void DeviceWatch::forget_note() {
  unsigned noted = LateNote::kNoted;
  watch_->state().compare_exchange_strong(noted, LateNote::kNone);
}

void DeviceWatch::abandon() {
  const std::lock_guard lock(watch_->mutex);
  watch_->abandoned = true;
}

}  // namespace ringrad
