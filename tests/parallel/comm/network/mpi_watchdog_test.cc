#include "ringrad/parallel/comm/network/mpi_watchdog.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using std::chrono::milliseconds;

class RollTest : public ::testing::Test {
 protected:
  RollTest() { EXPECT_NE(mkdtemp(folder_.data()), nullptr); }
  ~RollTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_ = ::testing::TempDir() + "rollXXXXXX";
};

constexpr auto kLong = std::chrono::hours(1);
constexpr auto kNoTime = std::chrono::nanoseconds(0);

TEST_F(RollTest, NamesRanksThatDidNotCall) {
  const Roll zero(folder_, "init", 0), two(folder_, "init", 2);
  EXPECT_EQ(zero.missing(4, 4, kLong), "no call from ranks 1, 3");
  const Roll one(folder_, "init", 1), of_another_call(folder_, "end", 3);
  EXPECT_EQ(zero.missing(4, 4, kLong), "no call from rank 3");
  const Roll three(folder_, "init", 3);
  EXPECT_EQ(zero.missing(4, 4, kLong), "");
}

TEST_F(RollTest, NamesRanksThatHaveNotSignedLately) {
  const Roll zero(folder_, "init", 0), one(folder_, "init", 1);
  zero.sign_off();
  EXPECT_EQ(zero.missing(2, 2, kNoTime), "no sign of life from rank 1, which died or was stopped");
  EXPECT_EQ(zero.missing(3, 3, kNoTime),
            "no sign of life from rank 1, which died or was stopped, and no call from rank 2");
  one.sign_off();
  EXPECT_EQ(zero.missing(2, 2, kNoTime), "");
}

TEST_F(RollTest, KnowsNothingOfOtherHosts) {
  const Roll two(folder_, "init", 2);
  EXPECT_EQ(two.missing(4, 1, kLong), "");
  EXPECT_EQ(two.missing(4, 2, kLong), "no call from 1 of the 2 ranks of this host");
  EXPECT_EQ(Roll("", "init", 0).missing(4, 4, kNoTime), "");
  EXPECT_EQ(Roll("/no/such/folder", "init", 0).missing(4, 4, kNoTime), "");
}

TEST_F(RollTest, OneRankOfAHostReports) {
  const Roll zero(folder_, "init", 0), one(folder_, "init", 1), end(folder_, "end", 1);
  EXPECT_TRUE(one.is_first_to_report());
  EXPECT_FALSE(zero.is_first_to_report());
  EXPECT_TRUE(end.is_first_to_report());
  EXPECT_TRUE(Roll("", "init", 0).is_first_to_report());
}

TEST_F(RollTest, ALongListIsShortened) {
  const Roll zero(folder_, "init", 0);
  EXPECT_EQ(zero.missing(64, 64, kLong), "no call from ranks 1, 2, 3, 4, 5, 6, 7, 8 and 55 more");
}

TEST_F(RollTest, IsForItsUserOnlyAndTouchesNoOtherFile) {
  const Roll zero(folder_, "init", 0);
  struct stat file {};
  ASSERT_EQ(stat((folder_ + "/init-0").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  std::filesystem::create_symlink(folder_ + "/target", folder_ + "/init-1");
  const Roll one(folder_, "init", 1);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/target"));
}

// Acts as a rank of two, in a folder of its launcher's.
class MpiWatchdogTest : public RollTest {
 protected:
  MpiWatchdogTest() {
    setenv("PMIX_SERVER_TMPDIR", folder_.c_str(), 1);
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "2", 1);
  }
  ~MpiWatchdogTest() override {
    for (const char* name : {"PMIX_SERVER_TMPDIR", "RANK", "WORLD_SIZE"}) unsetenv(name);
  }
};

TEST_F(MpiWatchdogTest, LeavesACallAloneThatReturnsInTime) {
  for (const auto limit : {std::chrono::nanoseconds(kLong), std::chrono::nanoseconds::max()})
    const MpiWatchdog watchdog("call", limit, [] { FAIL(); });
}

TEST_F(MpiWatchdogTest, EndsTheProcessWithTheRanksThatAreMissing) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const MpiWatchdog watchdog("call", milliseconds(50),
                                   [] { std::fputs("cleaned\n", stderr); });
        for (;;) pause();
      },
      ::testing::ExitedWithCode(1),
      "ringrad: rank 0: mpi group: call must return on every rank within 0.05 s; got no call from "
      "rank 1\ncleaned");
}

}  // namespace
}  // namespace ringrad
