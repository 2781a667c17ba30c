// Collectives of more bytes, and more elements, than 31 bits count. Two ranks need 5 GB: not among the tests that
// always run.

#include <gtest/gtest.h>

#include "parallel/comm/ranks.h"
#include "tests/parallel/comm/processes.h"
#include "tests/testing.h"

namespace ringrad {
namespace {

constexpr std::int64_t kCount = (std::int64_t{1} << 31) + 12'345;

// All calls in one tensor. Says what is wrong, "" for nothing.
std::string use_large_tensor(Communicator& comm) {
  const int n = comm.world_size();
  const Tensor x = comm.empty_shared({kCount}, {.dtype = DType::uint8, .device = Device()});
  std::uint8_t* const values = x.data<std::uint8_t>();
  const auto value = [](std::int64_t i) { return static_cast<int>(i % 101); };
  const auto wrong = [&](const char* call, auto expected) -> std::string {
    for (std::int64_t i = 0; i < kCount; ++i)
      if (values[i] != expected(i))
        return concat(call, ": element ", i, " is ", static_cast<int>(values[i]));
    return "";
  };
  for (std::int64_t i = 0; i < kCount; ++i)
    values[i] = static_cast<std::uint8_t>(value(i) + comm.rank());
  comm.all_reduce(x);
  std::string complaint =
      wrong("all_reduce", [&](std::int64_t i) { return n * value(i) + n * (n - 1) / 2; });
  comm.barrier();
  if (comm.rank() == 1)
    for (std::int64_t i = 0; i < kCount; ++i) values[i] = static_cast<std::uint8_t>(value(i + 7));
  comm.broadcast(x, 1);
  complaint += wrong("broadcast", [&](std::int64_t i) { return value(i + 7); });
  comm.barrier();
  return complaint;
}

TEST(LargeTest, AmongThreads) {
  run_ranks(2, [](Communicator& comm) { EXPECT_EQ(use_large_tensor(comm), ""); });
}

TEST(LargeTest, AmongProcesses) {
  testing::Processes processes(2, ProcessGroupOptions{}, use_large_tensor);
  for (const int rank : {0, 1}) EXPECT_EQ(processes.wait(rank), 0);
}

}  // namespace
}  // namespace ringrad
