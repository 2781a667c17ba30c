#include "ringrad/parallel/train/common/device_threads.h"

#include <omp.h>

#include <algorithm>
#include <map>
#include <utility>

namespace ringrad {

DeviceThreads::DeviceThreads(int count) {
  const int team = std::max(1, omp_get_max_threads() / count);
  try {
    for (int k = 0; k < count; ++k) threads_.emplace_back([this, k, team] { work(k, team); });
  } catch (...) {  // the system has no more threads: those already begun must not outlive us
    close();
    throw;
  }
}

DeviceThreads::~DeviceThreads() { close(); }

void DeviceThreads::close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::vector<std::exception_ptr> DeviceThreads::run(int count, const std::function<void(int)>& body,
                                                   Where where) {
  std::unique_lock lock(mutex_);
  RINGRAD_CHECK(
      !body_, ValueError, where,
      "DeviceThreads: a call must end before the next one; got a second at the same time");
  errors_.assign(static_cast<std::size_t>(count), nullptr);
  body_ = &body;
  num_called_ = num_running_ = count;
  ++call_;
  begun_.notify_all();
  ended_.wait(lock, [this] { return num_running_ == 0; });
  body_ = nullptr;
  num_called_ = 0;
  return std::exchange(errors_, {});
}

void DeviceThreads::work(int k, int team) {
  omp_set_num_threads(team);
  std::uint64_t last_call = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    begun_.wait(lock, [&] { return closing_ || (call_ != last_call && k < num_called_); });
    if (closing_) return;
    last_call = call_;
    const auto& body = *body_;
    lock.unlock();
    std::exception_ptr error;
    try {
      body(k);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    errors_[static_cast<std::size_t>(k)] = std::move(error);
    if (--num_running_ == 0) ended_.notify_one();
  }
}

DeviceThreads& threads_of_caller(int count) {
  thread_local std::map<std::pair<int, int>, DeviceThreads> crews;  // by threads and their teams
  const std::pair key(count, omp_get_max_threads() / count);
  const auto found = crews.find(key);
  return found != crews.end() ? found->second : crews.try_emplace(key, count).first->second;
}

}  // namespace ringrad
