// A process is stopped or killed during a save, when its file is complete but not yet in place.
// This program defines its own fsync(), which a save calls between the two.

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <limits>
#include <utility>

#include "ringrad/nn/checkpoint/checkpoint.h"
#include "ringrad/nn/checkpoint/generation.h"
#include "ringrad/tests/nn/checkpoint/folder.h"
#include "ringrad/tests/testing.h"

namespace {

int signal_at_fsync = 0;  // none

}  // namespace

extern "C" int fsync(int file) {
  if (signal_at_fsync != 0) raise(std::exchange(signal_at_fsync, 0));
  return static_cast<int>(syscall(SYS_fsync, file));
}

namespace ringrad::nn {
namespace {

using ringrad::testing::Folder;

constexpr int kRefused = 7;

// Saves the steps from `first` to `last`; in the save of step `fails_at` it sends itself the
// signal.
int run_job(const std::filesystem::path& path, std::int64_t first, std::int64_t last,
            std::int64_t fails_at = -1, int signal = 0) {
  std::int64_t step = 0;
  Checkpoint checkpoint;
  checkpoint.add("step", step);
  checkpoint.load(path);
  try {
    for (step = first; step <= last; ++step) {
      if (step == fails_at) signal_at_fsync = signal;
      checkpoint.save(path);
    }
  } catch (const DataError& error) {
    return error.message().find("later than") == error.message().npos ? 1 : kRefused;
  }
  return 0;
}

std::int64_t step_in(const std::filesystem::path& path) {
  std::int64_t step = 0;
  Checkpoint checkpoint;
  checkpoint.add("step", step);
  EXPECT_TRUE(checkpoint.load(path));
  return step;
}

// A child that saves steps 1 and 2, and gets the signal in the second save.
pid_t start_job(const std::filesystem::path& path, int signal) {
  const pid_t child = fork();
  if (child == 0) _exit(run_job(path, 1, 3, 2, signal));
  return child;
}

// Its temporary file lies beside the checkpoint.
void expect_to_be_between(const Folder& folder) {
  const auto files = folder.files();
  ASSERT_EQ(files.size(), 2u);
  EXPECT_TRUE(files[1].starts_with("run.") && files[1].ends_with(".ringrad-tmp")) << files[1];
  EXPECT_EQ(step_in(folder / "run"), 1);
}

// The first tests fork before this process makes a checkpoint, so this process is of a later
// generation.
TEST(CheckpointGenerationTest, AProcessThatWasStoppedCannotReplaceItsSuccessorsCheckpoint) {
  const Folder folder;
  const auto path = folder / "run";
  const pid_t stopped = start_job(path, SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(stopped, &status, WUNTRACED), stopped);
  ASSERT_TRUE(WIFSTOPPED(status));
  expect_to_be_between(folder);
  EXPECT_EQ(run_job(path, 100, 101), 0);  // the restarted job
  EXPECT_EQ(folder.files(), std::vector<std::string>{"run"});
  kill(stopped, SIGCONT);
  ASSERT_EQ(waitpid(stopped, &status, 0), stopped);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kRefused);
  EXPECT_EQ(step_in(path), 101);
  EXPECT_EQ(folder.files(), std::vector<std::string>{"run"});
}

TEST(CheckpointGenerationTest, WhatAKilledProcessLeavesTheNextSaveRemoves) {
  const Folder folder;
  const pid_t killed = start_job(folder / "run", SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(killed, &status, 0), killed);
  ASSERT_TRUE(WIFSIGNALED(status));
  expect_to_be_between(folder);
  raise_generation(run_generation() + 1);  // as if this process had begun after the child
  EXPECT_EQ(run_job(folder / "run", 100, 100), 0);
  EXPECT_EQ(folder.files(), std::vector<std::string>{"run"});
}

// All lists of a process have the same generation.
TEST(CheckpointGenerationTest, ListsOfOneProcessMayReplaceEachOthersCheckpoints) {
  const Folder folder;
  std::int64_t step = 1;
  Checkpoint first, second;
  first.add("step", step);
  second.add("step", step);
  second.save(folder / "run");
  first.save(folder / "run");
  EXPECT_TRUE(second.load(folder / "run"));
  second.save(folder / "run");
  first.save(folder / "run");
}

// The last test: from here on this process has the last generation.
TEST(CheckpointGenerationTest, TheLastGenerationIsSavedAndLoaded) {
  const Folder folder;
  raise_generation(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(run_generation(), kLastGeneration);
  for (const std::int64_t step : {1, 2}) {
    EXPECT_EQ(run_job(folder / "run", step, step), 0);
    EXPECT_EQ(step_in(folder / "run"), step);
  }
  EXPECT_EQ(run_generation(), kLastGeneration);
}

}  // namespace
}  // namespace ringrad::nn
