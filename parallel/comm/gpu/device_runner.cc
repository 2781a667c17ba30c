#include "ringrad/parallel/comm/gpu/device_runner.h"

#include <algorithm>
#include <thread>

#include "ringrad/core/transfer.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/parallel/comm/blocks/reduce_terms.h"
#include "ringrad/parallel/comm/common/running_time.h"
#include "ringrad/parallel/comm/gpu/device_run.h"

namespace ringrad {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kBetweenLooks = std::chrono::milliseconds(1);
constexpr auto kLongestEnd = std::chrono::milliseconds(100);  // of a process that is ending

// What a GPU may still come to use.
void keep_for_ever(std::unique_ptr<DeviceLinks> links) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::unique_ptr<DeviceLinks>>;
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(links));
}

}  // namespace

DeviceRunner::DeviceRunner(RankSession& session, Device device, Where where)
    : session_(session),
      device_(device),
      links_(link_devices(session, device, where)),
      copies_(device, where),
      watch_(
          device, [this] { return is_waiting(); }, where) {}

// Others may still use this rank's memory, or it theirs.
DeviceRunner::~DeviceRunner() {
  if (messages_ && !session_.memory()->is_one_process()) wait_until_messages_are_taken();
  if (drain()) return;
  watch_.abandon();
  keep_for_ever(std::move(links_));
}

// What another process has made can be opened only while that process lives. To CUDA its end is an
// invalid handle; to the group it is a rank's failure, which is thrown if it is known.
// REQUIRES: this rank has not reported the error as its own (RankGroup::Inside)
template <class Work>
void DeviceRunner::reach_peers(const Operation& operation, Work work) {
  try {
    work();
  } catch (const CudaError&) {
    // A process that ends gives its handles back before others can see that it has ended.
    const auto end = Clock::now() + kLongestEnd;
    do {
      session_.group().report_deaths();
      session_.group().check_whole(operation);
      if (is_message(operation.call.op)) messages_->check_peer_lives(operation);
      std::this_thread::yield();
    } while (!session_.memory()->is_one_process() && Clock::now() < end);
    throw;
  }
}

void DeviceRunner::meet(Operation& operation) {
  watch_.claim();
  if (kernels_) return;
  try {
    reach_peers(operation, [&] {
      links_->meet(operation);
      if (has_company()) shared_.emplace(device_);
      kernels_.emplace(session_, *links_, device_, watch_.note(), operation.where);
    });
    messages_.emplace(session_, *links_, device_);
  } catch (const std::exception& error) {
    session_.group().fail(error.what());  // the others may have met: there is no second time
    throw;
  }
  has_met_.store(true, std::memory_order_release);
}

// True if another rank has this rank's GPU. REQUIRES: the ranks have met
bool DeviceRunner::has_company() const {
  for (int other = 0; other < session_.world_size(); ++other)
    if (other != session_.rank() && links_->share_gpu(other, session_.rank())) return true;
  return false;
}

void DeviceRunner::wait_until_messages_are_taken() noexcept {
  for (RunningTime waited(kBetweenLooks); !messages_->all_are_taken() &&
                                          session_.group().failed_rank() < 0 &&
                                          waited.advance() < session_.options().deadline;) {
    session_.group().watch_for_deaths(Clock::now());
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

// --- What is queued ---

void DeviceRunner::queued(const Operation& operation, const Event& reached) {
  const Stream current = current_stream(device_);
  {
    const std::lock_guard lock(calls_mutex_);
    while (!calls_.empty() && calls_.front().done.is_done(operation.where)) calls_.pop_front();
    calls_.push_back({operation, reached, Event(current, /*timing=*/false, operation.where), {}});
  }
  links_->after_queueing(current, operation.where);
}

bool DeviceRunner::is_waiting() {
  const std::lock_guard lock(calls_mutex_);
  while (!calls_.empty() && calls_.front().done.is_done()) calls_.pop_front();
  if (calls_.empty()) return false;
  const auto now = Clock::now();
  if (now < next_look_) return true;
  next_look_ = now + kBetweenLooks;
  RankGroup& group = session_.group();
  QueuedCall& oldest = calls_.front();
  if (!oldest.since && oldest.reached.is_done()) oldest.since = now;
  if (oldest.since && now - *oldest.since - kLongestSettling >= session_.options().deadline)
    group.fail(concat(oldest.operation, ": every rank must arrive on its GPU within ",
                      group.deadline_s(), " s; got no end of it"));
  group.watch_for_deaths(now);
  if (group.failed_rank() < 0) return true;
  abort();
  if (!broken_since_) broken_since_ = now;
  if (now - *broken_since_ >= kLongestSettling) group.check_whole(oldest.operation);
  return true;
}

bool DeviceRunner::drain() noexcept {
  try {
    while (is_waiting()) std::this_thread::yield();
    return !has_given_up_;
  } catch (const Error&) {
    return false;
  }
}

void DeviceRunner::leave_behind() noexcept {
  abort();
  drain();
  watch_.forget_note();
}

// --- Memory ---

std::shared_ptr<std::byte> DeviceRunner::allocate(std::size_t bytes, Where where) {
  return links_->allocate(bytes, where);
}

bool DeviceRunner::is_visible(const std::byte* p) const { return links_->is_visible(p); }

void DeviceRunner::clear(std::byte* p, std::size_t bytes, Where where) {
  const Tensor zero =
      zeros({static_cast<std::int64_t>(bytes)}, {.dtype = DType::uint8, .device = device_}, where);
  copy(p, zero.raw_data(), bytes, where);
}

void DeviceRunner::copy(std::byte* to, const std::byte* from, std::size_t bytes, Where where) {
  copy_bytes(to, device_, from, device_, bytes, where);
}

// Sums made of all their terms at once are rounded once, whatever they travel in.
DType DeviceRunner::carrier(DType dtype, const PlanPrograms& programs) const {
  const bool travels_wide = programs.has_partial_sums || dtype == DType::bool_;
  return travels_wide ? carrier_dtype(dtype) : dtype;
}

void DeviceRunner::convert(DType from, const std::byte* in, DType to, std::byte* out,
                           std::int64_t count, Where where) {
  if (size_bytes(to) == size_bytes(from))
    return copy(out, in, static_cast<std::size_t>(count) * size_bytes(from), where);
  const auto at = [&](const std::byte* p, DType type) {
    return from_memory(const_cast<std::byte*>(p), {count}, {.dtype = type, .device = device_},
                       nullptr, where);
  };
  kernels::copy_(at(out, to), at(in, from), where);
}

// --- Messages ---

void DeviceRunner::send(MessageChannel& channel, Operation& operation, const std::byte* elements) {
  refuse_while_capturing("a message", operation.where);
  watch_.claim();
  const Event reached(current_stream(device_), /*timing=*/false, operation.where);
  reach_peers(operation, [&] { messages_->send(channel, operation, elements); });
  queued(operation, reached);
}

void DeviceRunner::receive(MessageChannel& channel, const Operation& operation, std::uintptr_t sent,
                           const Tensor& tensor) {
  refuse_while_capturing("a message", operation.where);
  watch_.claim();
  const Device device = tensor.device();
  const Tensor here = device == device_
                          ? tensor
                          : empty(tensor.shape(), {tensor.dtype(), device_}, operation.where);
  const Event reached(current_stream(device_), /*timing=*/false, operation.where);
  reach_peers(operation, [&] { messages_->receive(channel, operation, sent, here.raw_data()); });
  queued(operation, reached);
  if (device != device_)
    copy_bytes(tensor.raw_data(), device, here.raw_data(), device_, here.storage()->bytes(),
               operation.where);
}

// --- Running a plan ---

double DeviceRunner::seconds(const Operation& operation, const std::function<void()>& work) {
  const Stream stream = current_stream(device_);
  const Event begin(stream, /*timing=*/true, operation.where);
  work();
  const Event end(stream, /*timing=*/true, operation.where);
  end.synchronize(operation.where);
  return Event::milliseconds(begin, end, operation.where) * 1e-3;
}

bool DeviceRunner::try_all_reduce(Operation& operation, std::byte* data) {
  refuse_while_capturing("a collective", operation.where);
  const Event reached(current_stream(device_), /*timing=*/false, operation.where);
  if (!kernels_->try_run(operation, data)) return false;
  queued(operation, reached);
  return true;
}

void DeviceRunner::run(const PlanPrograms& programs, Operation operation, PlanData data) {
  refuse_while_capturing("a collective", operation.where);
  const DeviceGuard guard(device_, operation.where);
  const Event reached(current_stream(device_), /*timing=*/false, operation.where);
  DeviceRun run(session_, *this, *links_, device_, copies_, num_runs_++, programs, operation, data);
  try {
    const RankGroup::Inside inside(session_.group(), operation);
    reach_peers(operation, [&] { run.walk(); });
    queued(operation, reached);
  } catch (...) {
    if (!run.settle()) has_given_up_ = true;
    throw;
  }
}

}  // namespace ringrad
