// SharedEvent: an event that several processes record and wait for. One page of memory that all of them map
// holds two counters:
//
//     recorded    how often it was recorded, by all processes together
//     done        the latest record that its stream has come to
//
// A record takes the next number when the call is made; what waits for the event waits for the latest number
// at that time, as cudaStreamWaitEvent() says.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace ringrad::sim {

class SharedEvent {
 public:
  /// As another process can open it.
  struct Export {
    std::int32_t process, file, device;
  };

  /// A fresh one, and one that another process made; null if there is no memory, or no such event.
  static std::shared_ptr<SharedEvent> make(int device);
  static std::shared_ptr<SharedEvent> open(const Export& exported);

  ~SharedEvent();
  SharedEvent(const SharedEvent&) = delete;
  SharedEvent& operator=(const SharedEvent&) = delete;

  /// As the process that made it can be asked for it. REQUIRES: this process did
  Export exported() const;
  int device() const { return device_; }

  std::uint64_t record() { return counters_->recorded.fetch_add(1) + 1; }
  std::uint64_t latest() const { return counters_->recorded.load(); }
  void finish(std::uint64_t number);
  bool is_done(std::uint64_t number) const { return counters_->done.load() >= number; }

 private:
  struct Counters {
    std::atomic<std::uint64_t> recorded{0}, done{0};
  };

  SharedEvent(int file, int device, Counters* counters)
      : file_(file), device_(device), counters_(counters) {}
  static std::shared_ptr<SharedEvent> map(int file, int device);

  const int file_;
  const int device_;
  Counters* const counters_;
};

}  // namespace ringrad::sim
