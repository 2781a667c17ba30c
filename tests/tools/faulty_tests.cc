// Tests that fault on purpose, for gtest_isolated_test.py.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

namespace {

// Like a GPU's fault: all later work in this process fails as well.
bool is_broken = false;

TEST(First, Passes) { EXPECT_FALSE(is_broken); }

TEST(Fault, BreaksItsProcess) {
  is_broken = true;
  FAIL() << "the device has faulted";
}
TEST(AfterTheFault, Passes) { EXPECT_FALSE(is_broken); }

TEST(Crash, Aborts) {
  std::cout << "about to abort" << std::endl;
  std::abort();
}
TEST(AfterTheCrash, Passes) { EXPECT_FALSE(is_broken); }

TEST(Hang, Sleeps) { std::this_thread::sleep_for(std::chrono::hours(1)); }
TEST(AfterTheHang, Passes) { std::cout << "no end of this line"; }

TEST(Skip, Skips) { GTEST_SKIP() << "no GPU"; }

class WithNumber : public ::testing::TestWithParam<int> {};
TEST_P(WithNumber, Passes) { EXPECT_LT(GetParam(), 20); }
INSTANTIATE_TEST_SUITE_P(Twenty, WithNumber, ::testing::Range(0, 20));

TEST(Exit, FailsAfterTheTest) {
  std::atexit([] { std::_Exit(3); });
}

}  // namespace
