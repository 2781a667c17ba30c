// SharedEvent: an event that several processes record and wait for. One page of memory that all of
// them map holds:
//
//     recorded    how often it was recorded, by all processes together
//     done        for the last records, whether their streams have reached them: record n is done
//                 when done[n % 64] is n or more
//
// A record takes the next number when the call is made; a wait for the event waits for the latest
// number at the time of the call, as cudaStreamWaitEvent() specifies.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace ringrad::sim {

class SharedEvent {
 public:
  /// What another process needs to open it.
  struct Export {
    std::int32_t process, file, device;
  };

  /// A new event, and one that another process made; null if there is no memory, or no such event.
  static std::shared_ptr<SharedEvent> make(int device);
  static std::shared_ptr<SharedEvent> open(const Export& exported);

  ~SharedEvent();
  SharedEvent(const SharedEvent&) = delete;
  SharedEvent& operator=(const SharedEvent&) = delete;

  /// What other processes need to open it. REQUIRES: this process made it
  Export exported() const;
  int device() const { return device_; }

  std::uint64_t record() { return page_->recorded.fetch_add(1) + 1; }
  std::uint64_t latest() const { return page_->recorded.load(); }
  void finish(std::uint64_t number);
  bool is_done(std::uint64_t number) const { return done(number).load() >= number; }

 private:
  static constexpr std::uint64_t kRemembered = 64;
  struct Page {
    std::atomic<std::uint64_t> magic{0};
    std::atomic<std::uint64_t> recorded{0};
    std::array<std::atomic<std::uint64_t>, kRemembered> done{};
  };

  SharedEvent(int file, int device, Page* page) : file_(file), device_(device), page_(page) {}
  static std::shared_ptr<SharedEvent> map(int file, int device);
  std::atomic<std::uint64_t>& done(std::uint64_t number) const {
    return page_->done[number % kRemembered];
  }

  const int file_;
  const int device_;
  Page* const page_;
};

}  // namespace ringrad::sim
