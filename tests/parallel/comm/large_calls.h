// Every collective on two ranks, with more bytes and more elements than 31 bits count; up to 11 GB
// per rank.

#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "ringrad/core/base/allocator.h"
#include "ringrad/core/view.h"
#include "ringrad/parallel/comm/communicator.h"

namespace ringrad::testing {

inline constexpr std::int64_t kLargeCount =
    (std::int64_t{1} << 31) + 12'346;  // even: two equal parts
inline constexpr std::int64_t kHalf = kLargeCount / 2;

// Values differ by rank, by element and between the halves. No sum of two values is zero or wraps
// around.
inline std::uint8_t large_value(int rank, std::int64_t i) {
  return static_cast<std::uint8_t>(1 + (static_cast<std::uint32_t>(i) * 2654435761U >> 26) +
                                   37 * static_cast<unsigned>(rank));
}

class LargeCalls {
 public:
  explicit LargeCalls(Communicator& comm)
      : comm_(comm),
        x_(comm.empty_shared({kLargeCount}, {.dtype = DType::uint8, .device = Device()})),
        y_(empty({kLargeCount}, {.dtype = DType::uint8, .device = Device()})) {}

  /// The first fault; "" if there is none.
  std::string run() {
    const int rank = comm_.rank();
    const auto own = [&](std::int64_t i) { return large_value(rank, i); };
    const auto sum = [](std::int64_t i) { return large_value(0, i) + large_value(1, i); };
    const auto first_half = [](const Tensor& x) { return view::slice(x, 0, 0, kHalf); };
    const auto second_half = [](const Tensor& x) { return view::slice(x, 0, kHalf, kLargeCount); };
    check(
        "all_reduce", own, [&] { comm_.all_reduce(x_); }, sum);
    check(
        "broadcast", own, [&] { comm_.broadcast(x_, 1); },
        [](std::int64_t i) { return large_value(1, i); });
    check(
        "reduce", own, [&] { comm_.reduce(x_, 0); },
        [&](std::int64_t i) { return rank == 0 ? sum(i) : -1; });
    const Tensor own_half = rank == 0 ? first_half(x_) : second_half(x_);
    check(
        "all_gather", own, [&] { comm_.all_gather(x_, own_half); },
        [](std::int64_t i) { return large_value(i < kHalf ? 0 : 1, i); });
    const Tensor part = first_half(y_);
    check(
        "reduce_scatter", own,
        [&] {
          comm_.reduce_scatter(part, x_);
          std::copy_n(part.data<std::uint8_t>(), kHalf, own_half.data<std::uint8_t>());
        },
        [&](std::int64_t i) { return i / kHalf == rank ? sum(i) : -1; });
    check(
        "all_to_all", own,
        [&] {
          comm_.all_to_all(y_, x_);
          std::copy_n(y_.data<std::uint8_t>(), kLargeCount, x_.data<std::uint8_t>());
        },
        [&](std::int64_t i) { return large_value(i < kHalf ? 0 : 1, rank * kHalf + i % kHalf); });
    check(
        "send and recv", own, [&] { rank == 0 ? comm_.send(x_, 1) : comm_.recv(x_, 0); },
        [](std::int64_t i) { return large_value(0, i); });
    return complaint_;
  }

 private:
  // `expected` is negative where any value is allowed.
  template <class Input, class Perform, class Expected>
  void check(const char* call, Input input, Perform perform, Expected expected) {
    std::uint8_t* const data = x_.data<std::uint8_t>();
    for (std::int64_t i = 0; i < kLargeCount; ++i) data[i] = input(i);
    empty_cache();  // what the last call took is of other sizes, and would stay beside this call's
    comm_.barrier();
    const auto begin = std::chrono::steady_clock::now();
    perform();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (comm_.rank() == 0) std::printf("%-15s %6.2f s\n", call, took.count());
    for (std::int64_t i = 0; i < kLargeCount && complaint_.empty(); ++i)
      if (const int wanted = expected(i); wanted >= 0 && data[i] != wanted)
        complaint_ = concat(call, " on rank ", comm_.rank(), ": element ", i, " is ",
                            static_cast<int>(data[i]), ", expected ", wanted);
    comm_.barrier();
  }

  Communicator& comm_;
  const Tensor x_, y_;
  std::string complaint_;
};

/// Returns the first fault, or "". Prints how long each call took and how much memory the rank had.
inline std::string use_large_tensors(Communicator& comm) {
  std::string complaint = LargeCalls(comm).run();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("rank %d: at most %.1f GB resident\n", comm.rank(),
              static_cast<double>(usage.ru_maxrss) * 1024 / 1e9);
  std::fflush(stdout);
  return complaint;
}

}  // namespace ringrad::testing
