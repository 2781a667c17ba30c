// Ranks that fail, are late, or die in the middle of a save. The folder must hold either the old
// checkpoint or the new one, never a mixture. Each test says what happens when a file of the
// checkpoint gets its final name: rename() and fsync() of this program are the test's own.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "ringrad/nn/checkpoint/generation.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/tests/nn/checkpoint/folder.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/parallel/train/checkpoint/saved_rows.h"
#include "ringrad/tests/testing.h"

namespace {

// The argument is the file's new name. If `before` returns an error number, the call fails.
std::function<int(std::string_view)> before_rename;
std::function<void(std::string_view)> after_rename;
std::function<int()> before_fsync;

}  // namespace

extern "C" int rename(const char* from, const char* to) noexcept {
  if (before_rename)
    if (const int error = before_rename(to)) {
      errno = error;
      return -1;
    }
  const int result = renameat(AT_FDCWD, from, AT_FDCWD, to);
  if (result == 0 && after_rename) after_rename(to);
  return result;
}

extern "C" int fsync(int file) {
  if (before_fsync)
    if (const int error = before_fsync()) {
      errno = error;
      return -1;
    }
  return static_cast<int>(syscall(SYS_fsync, file));
}

namespace ringrad {
namespace {

using namespace std::chrono_literals;
using testing::expect_step;
using testing::expect_throws;
using testing::Folder;
using testing::names_in;
using testing::Processes;
using testing::Rows;
using testing::save;

constexpr std::string_view kIndex = "index.json", kFileOfRank1 = ".1.safetensors";

class ShardedCheckpointFailureTest : public ::testing::Test {
 protected:
  void TearDown() override { clear(); }
  static void clear() {
    before_rename = {};
    after_rename = {};
    before_fsync = {};
  }
};

// --- Ranks that die ---

struct Death {
  const char* description;
  int rank;
  std::string_view file;
  bool has_its_name;  // whether the file has its final name when the rank dies
  bool is_async;
  std::set<std::int64_t> steps;  // steps that the folder may hold afterwards
};

void die_at(const Death& death) {
  if (death.has_its_name)
    after_rename = [=](std::string_view to) {
      if (to.ends_with(death.file)) raise(SIGKILL);
    };
  else
    before_rename = [=](std::string_view to) {
      if (to.ends_with(death.file)) raise(SIGKILL);
      return 0;
    };
}

std::string save_and_die(Communicator& comm, const std::filesystem::path& folder,
                         const Death& death) {
  Rows job(comm);
  job.go_to(1);
  job.checkpoint.save(folder);
  if (comm.rank() == death.rank) die_at(death);
  job.go_to(2);
  try {
    if (death.is_async)
      job.checkpoint.save_async(folder);
    else
      job.checkpoint.save(folder);
    job.checkpoint.wait();
  } catch (const CollectiveError&) {
    return "";
  }
  return "the death must be noticed";
}

// Afterwards the job goes on, and nothing is left of the save in which the rank died.
std::string load_and_save(Communicator& comm, const std::filesystem::path& folder,
                          const std::set<std::int64_t>& steps) {
  Rows job(comm);
  if (!job.checkpoint.load(folder)) return "no checkpoint";
  if (!steps.contains(job.step)) return concat("step ", job.step);
  job.expect(job.step);
  job.go_to(3);
  job.checkpoint.save(folder);
  return names_in(folder).size() == 3 ? "" : "files are left";
}

TEST(ShardedCheckpointFailureDeathTest, ARankThatDiesLeavesTheCheckpointBeforeOrTheNewOne) {
  const Death deaths[] = {
      {"between the files and the index", 0, kIndex, false, false, {1}},
      {"between the index and the removal of old files", 0, kIndex, true, false, {2}},
      {"between its file and its name", 1, kFileOfRank1, false, false, {1}},
      {"with its file in place", 1, kFileOfRank1, true, false, {1, 2}},
      {"beside the next step", 1, kFileOfRank1, false, true, {1}},
      {"beside the next step, before the index", 0, kIndex, false, true, {1}},
  };
  for (const Death& death : deaths) {
    SCOPED_TRACE(death.description);
    const Folder folder;
    const auto run = folder / "run";
    {
      Processes ranks(2, ProcessGroupOptions(),
                      [&](Communicator& comm) { return save_and_die(comm, run, death); });
      EXPECT_EQ(ranks.wait(death.rank), -SIGKILL);
      EXPECT_EQ(ranks.wait(1 - death.rank), 0);
    }
    Processes ranks(2, ProcessGroupOptions(),
                    [&](Communicator& comm) { return load_and_save(comm, run, death.steps); });
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(ranks.wait(rank), 0);
  }
}

// --- Ranks that fail ---

void expect_save_to_fail(const std::filesystem::path& folder) {
  run_ranks(2, [&](Communicator& comm) {
    Rows job(comm);
    job.go_to(2);
    expect_throws<DataError>([&] { job.checkpoint.save(folder); }, "rank 1: save: ");
    comm.barrier();  // the group still works
  });
}

TEST_F(ShardedCheckpointFailureTest, OneRankThatCannotWriteLeavesTheCheckpointBefore) {
  const Folder folder;
  save(folder / "run", 1);
  before_rename = [](std::string_view to) { return to.ends_with(kFileOfRank1) ? EIO : 0; };
  expect_save_to_fail(folder / "run");
  clear();
  expect_step(folder / "run", 1);
  save(folder / "run", 3);
  EXPECT_EQ(names_in(folder / "run").size(), 3u);
}

// Rank 1 fails after its file has its final name and the index already names the file.
TEST_F(ShardedCheckpointFailureTest, AFileThatTheIndexNamesStaysIfItsRankFailsLater) {
  const Folder folder;
  save(folder / "run", 1);
  static thread_local bool is_rank1;
  std::atomic<bool> has_index = false;
  after_rename = [&](std::string_view to) {
    is_rank1 = to.ends_with(kFileOfRank1);
    if (to.ends_with(kIndex)) has_index = true;
  };
  before_fsync = [&] {
    if (!is_rank1) return 0;
    while (!has_index) std::this_thread::yield();
    return EIO;
  };
  expect_save_to_fail(folder / "run");
  clear();
  expect_step(folder / "run", 2);
}

TEST_F(ShardedCheckpointFailureTest, TheEndWaitsForALateWriter) {
  const Folder folder;
  before_rename = [](std::string_view to) {
    if (to.ends_with(kFileOfRank1)) std::this_thread::sleep_for(1s);
    return 0;
  };
  run_ranks(2, [&](Communicator& comm) {
    Rows job(comm, {.visible = 10ms});
    job.go_to(5);
    job.checkpoint.save_async(folder / "run");
  });
  expect_step(folder / "run", 5);
}

TEST_F(ShardedCheckpointFailureTest, ALastSaveThatIsLostIsReported) {
  const Folder folder;
  before_rename = [](std::string_view to) { return to.ends_with(kFileOfRank1) ? EIO : 0; };
  ::testing::internal::CaptureStderr();
  run_ranks(2, [&](Communicator& comm) {
    Rows job(comm, {.deadline = 2s});
    job.checkpoint.save_async(folder / "run");
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  for (const char* line : {"rank 0: the last checkpoint has not been saved: ",
                           "rank 1: the last checkpoint has not been saved: "})
    EXPECT_NE(said.find(line), said.npos) << said;
}

// --- Jobs on one folder ---

// A writer is stopped with its file complete but without its name. Its successor does not wait for
// it, and what the stopped one does afterwards is never read.
TEST_F(ShardedCheckpointFailureTest, AStoppedWriterNeitherBlocksNorReplacesItsSuccessor) {
  for (const std::string_view stops_at : {kIndex, kFileOfRank1}) {
    SCOPED_TRACE(stops_at);
    const Folder folder;
    std::atomic<bool> is_first = true, is_stopped = false, goes_on = false;
    before_rename = [&](std::string_view to) {
      if (!to.ends_with(stops_at) || !is_first.exchange(false)) return 0;
      is_stopped = true;
      is_stopped.notify_all();
      goes_on.wait(false);
      return 0;
    };
    std::jthread stopped([&] {
      run_ranks(2, [&](Communicator& comm) {
        Rows job(comm, {.visible = 10ms});
        job.go_to(1);
        expect_throws<DataError>([&] { job.checkpoint.save(folder / "run"); },
                                 "must be of this run or an earlier one; got generation");
      });
    });
    is_stopped.wait(false);
    nn::raise_generation(nn::run_generation() + 1);  // as a process has that starts later
    save(folder / "run", 2);
    goes_on = true;
    goes_on.notify_all();
    stopped.join();
    expect_step(folder / "run", 2);
    save(folder / "run", 3);
    EXPECT_EQ(names_in(folder / "run").size(), 3u);
    clear();
  }
}

// Another job saves after this one has read the index, and before it reads the files.
TEST_F(ShardedCheckpointFailureTest, AnIndexThatIsReplacedDuringALoadIsReadAgain) {
  for (const bool is_of_a_later_run : {false, true}) {
    const Folder folder;
    save(folder / "run", 1);
    run_ranks(2, [&](Communicator& comm) {
      Rows job(comm);
      int saves = 0;
      if (comm.rank() == 0)
        job.on_get = [&] {
          if (saves == 3) return;
          if (is_of_a_later_run) nn::raise_generation(nn::run_generation() + 1);
          std::thread([&] { save(folder / "run", 10 + ++saves); }).join();
        };
      ASSERT_TRUE(job.checkpoint.load(folder / "run"));
      job.expect(13);
    });
  }
}

TEST_F(ShardedCheckpointFailureTest, LoadsSucceedWhileAnotherJobSaves) {
  const Folder folder;
  save(folder / "run", 1);
  std::jthread saving([&](const std::stop_token& stop) {
    run_ranks(2, [&](Communicator& comm) {
      Rows job(comm);
      for (int step = 2;; ++step) {
        job.go_to(step);
        job.checkpoint.save(folder / "run");
        const Tensor done = full({1}, stop.stop_requested() ? 1. : 0.);
        comm.broadcast(done, 0);
        if (done.item() != 0) break;
      }
    });
  });
  for (int i = 0; i < 30; ++i)
    run_ranks(2, [&](Communicator& comm) {
      Rows job(comm);
      ASSERT_TRUE(job.checkpoint.load(folder / "run"));
      job.expect(job.step);
    });
}

// --- State that one rank cannot give, or take ---

TEST_F(ShardedCheckpointFailureTest, WhatOneRankCannotGiveAllRanksThrow) {
  const Folder folder;
  save(folder / "run", 1);
  run_ranks(2, [&](Communicator& comm) {
    Rows job(comm);
    if (comm.rank() == 1) job.on_get = [] { throw ValueError("no row", Where::current()); };
    for (const auto& call : std::initializer_list<std::function<void()>>{
             [&] { job.checkpoint.save(folder / "run"); },
             [&] { job.checkpoint.save_async(folder / "run"); },
             [&] { job.checkpoint.load(folder / "run"); }}) {
      expect_throws<DataError>(call, "rank 1: no row");
      comm.barrier();
    }
  });
  expect_step(folder / "run", 1);
}

TEST_F(ShardedCheckpointFailureTest, WhatOneRankRefusesNoRankTakes) {
  const Folder folder;
  save(folder / "run", 1);
  run_ranks(2, [&](Communicator& comm) {
    Rows job(comm);
    if (comm.rank() == 1) job.on_check = [] { throw ValueError("no row", Where::current()); };
    expect_throws<DataError>([&] { job.checkpoint.load(folder / "run"); }, "rank 1: no row");
    job.expect(0);
    comm.barrier();
  });
}

}  // namespace
}  // namespace ringrad
