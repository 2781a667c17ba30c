#include "ringrad/core/gpu/device_watch.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "ringrad/core/gpu/cuda_check.h"
#include "ringrad/core/gpu/stream.h"

namespace ringrad {

// --- All watches of the process ---

struct DeviceWatch::Watch {
  Watch(Device device, DeviceNote* note, Look look, Throw throw_note)
      : device(device), note(note), throw_note(throw_note), look(std::move(look)) {}

  const Device device;
  DeviceNote* const note;
  const Throw throw_note;
  std::atomic<std::thread::id> owner;
  std::mutex mutex;  // guards the members below
  Look look;         // empty after the watch's end
  bool abandoned = false;

  bool has_note() const { return state().load(std::memory_order_acquire) == DeviceNote::kNoted; }
  bool is_over() {
    const std::lock_guard lock(mutex);
    return !look && state().load(std::memory_order_acquire) == DeviceNote::kNone;
  }
  bool is_waiting() {
    const std::lock_guard lock(mutex);
    return look && look();
  }
  std::atomic_ref<unsigned> state() const { return std::atomic_ref(note->state); }
};

namespace {

using Watch = DeviceWatch::Watch;

// Never destroyed, because watches may end after all static objects.
struct Registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<Watch>> watches;
  std::vector<DeviceNote*> free_notes;  // reused, because freeing pinned memory waits for the GPUs
};
Registry& registry() {
  static auto& all = *new Registry;
  return all;
}
std::atomic<bool> has_watches = false;  // true from the first watch on

DeviceNote* take_note(Device device, Where where) {
  {
    const std::lock_guard lock(registry().mutex);
    std::vector<DeviceNote*>& free = registry().free_notes;
    if (!free.empty()) {
      DeviceNote* const note = free.back();
      free.pop_back();
      return note;
    }
  }
  const DeviceGuard guard(device, where);
  void* memory = nullptr;
  RINGRAD_CUDA_CHECK(
      cudaHostAlloc(&memory, DeviceNote::kMostBytes, cudaHostAllocPortable | cudaHostAllocMapped),
      where);
  return static_cast<DeviceNote*>(std::memset(memory, 0, DeviceNote::kMostBytes));
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

void await_watched_work(Device device, const std::function<bool()>& is_done) {
  const auto watches = watches_on(device);
  while (std::ranges::any_of(watches, [](const auto& watch) { return watch->is_waiting(); }) &&
         !is_done())
    std::this_thread::yield();
}

void throw_device_note(Device device) {
  for (const auto& watch : watches_on(device)) {
    if (!watch->has_note()) continue;
    unsigned noted =
        DeviceNote::kNoted;  // this thread has the note to itself while it is "written"
    if (!watch->state().compare_exchange_strong(noted, DeviceNote::kInWriting)) continue;
    alignas(std::max_align_t) std::byte copy[DeviceNote::kMostBytes];
    std::memcpy(copy, watch->note, sizeof copy);
    watch->state().store(DeviceNote::kNone, std::memory_order_release);
    watch->throw_note(*reinterpret_cast<const DeviceNote*>(copy));
  }
}

// --- One watch ---

DeviceWatch::DeviceWatch(Device device, Look look, Throw throw_note, Where where)
    : watch_(
          std::make_shared<Watch>(device, take_note(device, where), std::move(look), throw_note)) {
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

DeviceNote& DeviceWatch::note() const { return *watch_->note; }

void DeviceWatch::leave_note(const std::function<void(DeviceNote& note)>& write) {
  unsigned nothing = DeviceNote::kNone;
  if (!watch_->state().compare_exchange_strong(nothing, DeviceNote::kInWriting)) return;
  write(*watch_->note);
  watch_->state().store(DeviceNote::kNoted, std::memory_order_release);
}

void DeviceWatch::forget_note() {
  unsigned noted = DeviceNote::kNoted;
  watch_->state().compare_exchange_strong(noted, DeviceNote::kNone);
}

void DeviceWatch::abandon() {
  const std::lock_guard lock(watch_->mutex);
  watch_->abandoned = true;
}

}  // namespace ringrad
