#include "ringrad/parallel/comm/common/no_broken_pipe.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "ringrad/parallel/comm/common/descriptor.h"

namespace ringrad {
namespace {

bool is_pending() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGPIPE) == 1;
}

void expect_broken_pipe() {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Descriptor out(ends[1]);
  close(ends[0]);
  EXPECT_EQ(write(out.number(), "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST(NoBrokenPipeTest, AWriteFailsAndTheProcessLives) {
  for (int i = 0; i < 2; ++i) {
    const NoBrokenPipe guard;
    expect_broken_pipe();
  }
  EXPECT_FALSE(is_pending());
}

TEST(NoBrokenPipeTest, MayBeNested) {
  const NoBrokenPipe outer;
  {
    const NoBrokenPipe inner;
    expect_broken_pipe();
  }
  expect_broken_pipe();
}

TEST(NoBrokenPipeTest, TheSignalIsRestoredOutside) {
  { const NoBrokenPipe guard; }
  EXPECT_EXIT(expect_broken_pipe(), ::testing::KilledBySignal(SIGPIPE), "");
}

TEST(NoBrokenPipeTest, AnEarlierSignalIsKept) {
  std::optional<NoBrokenPipe> blocked(std::in_place);
  raise(SIGPIPE);
  {
    const NoBrokenPipe guard;
    expect_broken_pipe();
  }
  EXPECT_TRUE(is_pending());
  blocked.reset();
  EXPECT_FALSE(is_pending());
}

}  // namespace
}  // namespace ringrad
