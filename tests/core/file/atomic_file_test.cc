// Files that exist as a whole or not at all, despite other writers and other users.

#include "ringrad/core/file/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringrad/tests/core/file/file_rules.h"
#include "ringrad/tests/nn/checkpoint/folder.h"
#include "ringrad/tests/testing.h"

namespace {

std::atomic<int> num_syncs = 0;

}  // namespace

extern "C" int fsync(int file) {
  ++num_syncs;
  return static_cast<int>(syscall(SYS_fsync, file));
}

namespace ringrad {
namespace {

using ringrad::testing::bytes_of;
using ringrad::testing::expect_throws;
using ringrad::testing::Folder;
using ringrad::testing::mode_of;
using ringrad::testing::write_bytes;

void write_text(const std::filesystem::path& path, const std::string& text) {
  write_file("test", path, text);
}

TEST(AtomicFileTest, OneProcessWritesAtATime) {
  const Folder folder;
  AtomicFile first(folder / "file");
  expect_throws<DataError>([&] { AtomicFile second(folder / "file"); },
                           "must be written by one process at a time; got \"Resource temporarily");
  const std::string text = "of the first";
  first.write(std::as_bytes(std::span(text)));
  first.commit();
  EXPECT_EQ(bytes_of(folder / "file"), text);
  AtomicFile(folder / "file").commit();
  EXPECT_EQ(bytes_of(folder / "file"), "");
}

// Any step that can fail does so before the old file is replaced.
TEST(AtomicFileTest, NeedsNoMoreDescriptorsToCommit) {
  const Folder folder;
  write_bytes(folder / "file", "old");
  AtomicFile file(folder / "file");
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  expect_throws<DataError>([&] { AtomicFile other(folder / "other"); },
                           "must lie in a folder that can be opened; got \"Too many open files");
  EXPECT_NO_THROW(file.commit());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(bytes_of(folder / "file"), "");
  EXPECT_EQ(folder.files(), std::vector<std::string>{"file"});
}

TEST(AtomicFileTest, APipeIsNotWaitedFor) {
  const Folder folder;
  ASSERT_EQ(mkfifo((folder / "file.ringrad-tmp").c_str(), 0600), 0);
  expect_throws<DataError>([&] { AtomicFile file(folder / "file"); }, "must be writable; got");
}

TEST(AtomicFileTest, AUsersOwnTmpFileStays) {
  const Folder folder;
  write_bytes(folder / "file.tmp", "mine");
  AtomicFile(folder / "file").commit();
  EXPECT_EQ(bytes_of(folder / "file.tmp"), "mine");
}

TEST(AtomicFileTest, OnlyThisUserCanOpenItUntilItIsWhole) {
  const Folder folder;
  write_bytes(folder / "file.ringrad-tmp", "left");
  std::filesystem::permissions(folder / "file.ringrad-tmp", std::filesystem::perms::all);
  AtomicFile file(folder / "file");
  EXPECT_EQ(mode_of(folder / "file.ringrad-tmp"), 0600u);
  file.commit();
  write_bytes(folder / "ordinary", "");
  EXPECT_EQ(mode_of(folder / "file"), mode_of(folder / "ordinary"));
}

TEST(AtomicFileTest, ALinkToAnotherFileIsRefused) {
  const Folder folder;
  write_bytes(folder / "other", "precious");
  std::filesystem::create_hard_link(folder / "other", folder / "file.ringrad-tmp");
  expect_throws<DataError>([&] { AtomicFile file(folder / "file"); },
                           "must have a temporary file of this user's alone; got");
  std::filesystem::remove(folder / "file.ringrad-tmp");
  std::filesystem::create_symlink(folder / "other", folder / "file.ringrad-tmp");
  expect_throws<DataError>([&] { AtomicFile file(folder / "file"); }, "must be writable; got");
  EXPECT_EQ(bytes_of(folder / "other"), "precious");
}

TEST(AtomicFileTest, AFileOfAnotherUserIsRefused) {
  const Folder folder;
  write_bytes(folder / "file.ringrad-tmp", "theirs");
  if (chown((folder / "file.ringrad-tmp").c_str(), 1234, 1234) != 0) GTEST_SKIP() << "not root";
  expect_throws<DataError>([&] { AtomicFile file(folder / "file"); },
                           "must have a temporary file of this user's alone; got");
  EXPECT_EQ(bytes_of(folder / "file.ringrad-tmp"), "theirs");
}

// A killed process has left the file.
TEST(AtomicFileTest, AnOldTemporaryFileIsOverwritten) {
  const Folder folder;
  write_bytes(folder / "file.ringrad-tmp", std::string(1000, 'x'));
  AtomicFile file(folder / "file");
  const std::string text = "new";
  file.write(std::as_bytes(std::span(text)));
  file.commit();
  EXPECT_EQ(bytes_of(folder / "file"), text);
  EXPECT_EQ(folder.files(), std::vector<std::string>{"file"});
}

TEST(AtomicFileTest, OnlyADurableFileWaitsForTheDisk) {
  const Folder folder;
  num_syncs = 0;
  AtomicFile(folder / "cache", {.is_durable = false}).commit();
  EXPECT_EQ(num_syncs, 0);
  AtomicFile(folder / "file").commit();
  EXPECT_EQ(num_syncs, 2);  // the file and its folder
  EXPECT_EQ(folder.files(), (std::vector<std::string>{"cache", "file"}));
}

// SIGXFSZ would end the process.
TEST(AtomicFileTest, ALimitOnSizesIsAnErrorAndNoSignal) {
  const Folder folder;
  write_bytes(folder / "file", "old");
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{100, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_throws<DataError>([&] { write_text(folder / "file", std::string(1000, 'x')); },
                           "file must be writable; got \"File too large\" for ");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(bytes_of(folder / "file"), "old");
  EXPECT_EQ(folder.files(), std::vector<std::string>{"file"});
}

TEST(AtomicFileTest, ManyWritersDoNotRefuseEachOther) {
  const Folder folder;
  AtomicFile first(folder / "file", {.has_many_writers = true});
  AtomicFile second(folder / "file", {.has_many_writers = true});
  first.write("first");
  second.write("second");
  second.commit();
  EXPECT_EQ(bytes_of(folder / "file"), "second");
  first.commit();
  EXPECT_EQ(bytes_of(folder / "file"), "first");
  EXPECT_EQ(folder.files(), std::vector<std::string>{"file"});
}

TEST(AtomicFileTest, FilesThatAreWrittenAtOnceAreWhole) {
  const Folder folder;
  std::vector<std::jthread> writers;
  for (const char letter : std::string("abcdefgh"))
    writers.emplace_back(
        [&folder, letter] { write_text(folder / "file", std::string(100'000, letter)); });
  writers.clear();
  const std::string text = bytes_of(folder / "file");
  EXPECT_EQ(text, std::string(100'000, text.at(0)));
  EXPECT_EQ(folder.files(), std::vector<std::string>{"file"});
}

// --- Versions ---
//
// Each text is its writer's version, so the check can compare that of the file with its own.

class Writer {
 public:
  Writer(const Folder& folder, std::string version)
      : path_(folder / "file"), version_(std::move(version)), file_(path_, {.version = version_}) {
    file_.write(version_);
  }
  /// Calls `between` where the writer may be stopped: it has found nothing later.
  void commit(const std::function<void()>& between = [] {}) {
    file_.commit([&] {
      const std::string there = bytes_of(path_);
      RINGRAD_CHECK(there <= version_, DataError, Where::current(), "later than ", version_,
                    "; got ", there);
      between();
    });
  }

 private:
  const std::filesystem::path path_;
  const std::string version_;
  AtomicFile file_;
};

// A writer is stopped at any point, and continues after its successor has saved.
TEST(AtomicFileTest, AStoppedWriterNeitherBlocksNorReplacesItsSuccessor) {
  const Folder folder;
  Writer stopped(folder, "07");
  Writer(folder, "12").commit();
  expect_throws<DataError>([&] { stopped.commit(); }, "later than 07; got 12");
  expect_throws<DataError>(
      [&] { Writer(folder, "13").commit([&] { Writer(folder, "14").commit(); }); },
      "later than 13; got 14");
  EXPECT_EQ(bytes_of(folder / "file"), "14");
  EXPECT_EQ(folder.files(), std::vector<std::string>{"file"});
}

// The successor has removed the stopped writer's file, and is stopped itself before its own has the
// name; or has failed.
TEST(AtomicFileTest, AWriterWhoseFileWasRemovedSaysWhy) {
  const Folder folder;
  Writer stopped(folder, "07");
  {
    Writer successor(folder, "12");
    std::filesystem::remove(folder / "file.07.ringrad-tmp");
    expect_throws<DataError>([&] { stopped.commit(); },
                             "must be written by the latest run; got a later one's ");
  }
  expect_throws<DataError>(
      [&] { stopped.commit(); },
      "must be written by the latest run; got a later one, which has removed ");
}

TEST(AtomicFileTest, AWriterGivesWayToALaterOneThatIsWriting) {
  const Folder folder;
  write_bytes(folder / "file.99.ringrad-tmp", "of a later writer that was killed");
  Writer(folder, "05").commit();
  EXPECT_EQ(bytes_of(folder / "file"), "05");
  Writer later(folder, "12"), earlier(folder, "07");
  expect_throws<DataError>([&] { earlier.commit(); },
                           "file.12.ringrad-tmp, which is being written");
  later.commit();
  EXPECT_EQ(bytes_of(folder / "file"), "12");
  EXPECT_EQ(folder.files(), (std::vector<std::string>{"file", "file.99.ringrad-tmp"}));
}

TEST(AtomicFileTest, WritersOfAllVersionsAtOnceLeaveTheLatest) {
  for (int round = 0; round < 20; ++round) {
    const Folder folder;
    std::vector<std::jthread> writers;
    for (int version = 10; version < 18; ++version)
      writers.emplace_back([&folder, version] {
        try {
          Writer(folder, std::to_string(version)).commit();
        } catch (const DataError&) {  // a later one is there, or is being written
        }
      });
    writers.clear();
    EXPECT_EQ(bytes_of(folder / "file"), "17");
  }
}

}  // namespace
}  // namespace ringrad
