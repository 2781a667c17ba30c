// Files that exist as a whole or not at all, despite other writers and other users.

#include "ringrad/nn/checkpoint/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "ringrad/tests/nn/checkpoint/folder.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using ringrad::testing::bytes_of;
using ringrad::testing::expect_throws;
using ringrad::testing::Folder;
using ringrad::testing::write_bytes;

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
  ASSERT_EQ(mkfifo((folder / "file.tmp").c_str(), 0600), 0);
  expect_throws<DataError>([&] { AtomicFile file(folder / "file"); }, "must be writable; got");
}

mode_t mode_of(const std::filesystem::path& path) {
  struct stat facts {};
  EXPECT_EQ(stat(path.c_str(), &facts), 0);
  return facts.st_mode & 0777;
}

TEST(AtomicFileTest, OnlyThisUserCanOpenItUntilItIsWhole) {
  const Folder folder;
  write_bytes(folder / "file.tmp", "left");
  std::filesystem::permissions(folder / "file.tmp", std::filesystem::perms::all);
  AtomicFile file(folder / "file");
  EXPECT_EQ(mode_of(folder / "file.tmp"), 0600u);
  file.commit();
  write_bytes(folder / "ordinary", "");
  EXPECT_EQ(mode_of(folder / "file"), mode_of(folder / "ordinary"));
}

TEST(AtomicFileTest, ALinkToAnotherFileIsRefused) {
  const Folder folder;
  write_bytes(folder / "other", "precious");
  std::filesystem::create_hard_link(folder / "other", folder / "file.tmp");
  expect_throws<DataError>([&] { AtomicFile file(folder / "file"); },
                           "must have a temporary file of this user's alone; got");
  std::filesystem::remove(folder / "file.tmp");
  std::filesystem::create_symlink(folder / "other", folder / "file.tmp");
  expect_throws<DataError>([&] { AtomicFile file(folder / "file"); }, "must be writable; got");
  EXPECT_EQ(bytes_of(folder / "other"), "precious");
}

TEST(AtomicFileTest, AFileOfAnotherUserIsRefused) {
  const Folder folder;
  write_bytes(folder / "file.tmp", "theirs");
  if (chown((folder / "file.tmp").c_str(), 1234, 1234) != 0) GTEST_SKIP() << "not root";
  expect_throws<DataError>([&] { AtomicFile file(folder / "file"); },
                           "must have a temporary file of this user's alone; got");
  EXPECT_EQ(bytes_of(folder / "file.tmp"), "theirs");
}

// A killed process has left the file.
TEST(AtomicFileTest, AnOldTemporaryFileIsOverwritten) {
  const Folder folder;
  write_bytes(folder / "file.tmp", std::string(1000, 'x'));
  AtomicFile file(folder / "file");
  const std::string text = "new";
  file.write(std::as_bytes(std::span(text)));
  file.commit();
  EXPECT_EQ(bytes_of(folder / "file"), text);
  EXPECT_EQ(folder.files(), std::vector<std::string>{"file"});
}

// A writer is stopped in the middle of its save, and continues after its successor has saved.
TEST(AtomicFileTest, AStoppedWriterNeitherBlocksNorReplacesItsSuccessor) {
  const Folder folder;
  const std::string old_text = "of the stopped one", new_text = "of its successor";
  const auto check = [](bool is_latest) {
    return [=] { RINGRAD_CHECK(is_latest, DataError, Where::current(), "a later one is there"); };
  };
  AtomicFile stopped(folder / "file", 7);
  stopped.write(std::as_bytes(std::span(old_text)));
  AtomicFile successor(folder / "file", 12);
  successor.write(std::as_bytes(std::span(new_text)));
  successor.commit(check(true));
  expect_throws<DataError>([&] { stopped.commit(check(false)); }, "a later one is there");
  EXPECT_EQ(bytes_of(folder / "file"), new_text);
  EXPECT_EQ(folder.files(), std::vector<std::string>{"file"});
}

// Another writer replaces the file between the check and the rename.
TEST(AtomicFileTest, AFileThatWasReplacedSinceIsCheckedAgain) {
  const Folder folder;
  write_bytes(folder / "file", "first");
  std::vector<std::string> seen;
  AtomicFile file(folder / "file", 7);
  file.commit([&] {
    seen.push_back(bytes_of(folder / "file"));
    if (seen.size() == 1) {
      AtomicFile other(folder / "file", 6);
      const std::string text = "second";
      other.write(std::as_bytes(std::span(text)));
      other.commit([] {});
    }
  });
  EXPECT_EQ(seen, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(bytes_of(folder / "file"), "");
}

TEST(AtomicFileTest, ALockThatCannotBeIsNotWaitedFor) {
  const Folder folder;
  std::filesystem::create_directory(folder / "file.lock");
  AtomicFile file(folder / "file", 7);
  const auto begin = std::chrono::steady_clock::now();
  expect_throws<DataError>([&] { file.commit([] {}); }, "file.lock must be free within 10 s; got");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

}  // namespace
}  // namespace ringrad::nn
