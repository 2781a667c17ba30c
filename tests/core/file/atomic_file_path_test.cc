// What the path of a file means that is written as a whole: links, streams, modes and owners.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringrad/core/file/atomic_file.h"
#include "ringrad/tests/core/file/file_rules.h"
#include "ringrad/tests/nn/checkpoint/folder.h"
#include "ringrad/tests/testing.h"

namespace {

std::function<void()> after_next_look;  // at the file that is written

}  // namespace

extern "C" int fstatat(int folder, const char* path, struct stat* facts, int flags) noexcept {
  const auto result = static_cast<int>(syscall(SYS_newfstatat, folder, path, facts, flags));
  if (after_next_look) std::exchange(after_next_look, {})();
  return result;
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

TEST(AtomicFilePathTest, ALinkIsFollowedAndStays) {
  const Folder folder;
  std::filesystem::create_directory(folder / "data");
  write_bytes(folder / "data" / "target", "old");
  std::filesystem::create_symlink("data/target", folder / "link");
  std::filesystem::create_symlink(folder / "link", folder / "second");
  std::filesystem::create_symlink("data/new", folder / "dangling");
  write_text(folder / "second", "new");
  EXPECT_EQ(bytes_of(folder / "data" / "target"), "new");
  write_text(folder / "dangling", "made");
  EXPECT_EQ(bytes_of(folder / "data" / "new"), "made");
  for (const char* link : {"link", "second", "dangling"})
    EXPECT_TRUE(std::filesystem::is_symlink(folder / link)) << link;
  EXPECT_EQ(folder.files(), (std::vector<std::string>{"dangling", "data", "link", "second"}));
  std::filesystem::create_symlink("circle", folder / "circle");
  expect_throws<DataError>([&] { write_text(folder / "circle", ""); }, "symbolic links");
}

TEST(AtomicFilePathTest, ALinkOfAnotherUserInAFolderOpenToAllIsNotFollowed) {
  const Folder folder;
  std::filesystem::create_directory(folder / "open");
  ASSERT_EQ(chmod((folder / "open").c_str(), 01777), 0);
  write_bytes(folder / "ours", "precious");
  const auto link = folder / "open" / "link";
  std::filesystem::create_symlink(folder / "ours", link);
  write_text(link, "by our own link");
  if (lchown(link.c_str(), 1234, 1234) != 0) GTEST_SKIP() << "not root";
  expect_throws<DataError>([&] { write_text(link, "by theirs"); }, "no link of another user");
  EXPECT_EQ(bytes_of(folder / "ours"), "by our own link");
}

// What is written into is no exception.
TEST(AtomicFilePathTest, NoLinkOrPipeOfAnotherUserInAFolderOpenToAllIsWrittenInto) {
  const Folder folder;
  std::filesystem::create_directory(folder / "open");
  ASSERT_EQ(chmod((folder / "open").c_str(), 01777), 0);
  const auto link = folder / "open" / "link", pipe = folder / "open" / "pipe";
  std::filesystem::create_symlink("/dev/null", link);
  write_text(link, "by our own link");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0666), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  write_text(pipe, "ours");
  char bytes[8];
  EXPECT_EQ(read(reader, bytes, sizeof bytes), 4);
  const bool is_root = lchown(link.c_str(), 1234, 1234) == 0;
  if (is_root) {
    expect_throws<DataError>([&] { write_text(link, "by theirs"); },
                             "must be no link of another user in a folder that is open to all");
    std::filesystem::create_symlink(link, folder / "ours");
    expect_throws<DataError>([&] { write_text(folder / "ours", "by both"); }, "must be no link");
    ASSERT_EQ(chown(pipe.c_str(), 1234, 1234), 0);
    expect_throws<DataError>([&] { write_text(pipe, "theirs"); },
                             "must be no pipe of another user in a folder that is open to all");
    EXPECT_EQ(read(reader, bytes, sizeof bytes), 0);
    ASSERT_EQ(chmod((folder / "open").c_str(), 0755), 0);
    write_text(pipe, "given");
    EXPECT_EQ(read(reader, bytes, sizeof bytes), 5);
  }
  close(reader);
  if (!is_root) GTEST_SKIP() << "not root";
}

// Another user does so between two steps of the writer.
TEST(AtomicFilePathTest, APipeThatIsReplacedWhileItIsOpenedIsRefused) {
  const Folder folder;
  const auto pipe = folder / "pipe", other = folder / "other";
  for (const auto& path : {pipe, other}) ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(other.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  after_next_look = [&] { std::filesystem::rename(other, pipe); };
  expect_throws<DataError>([&] { write_text(pipe, "text"); },
                           "pipe must stay the same file while it is opened; got \"Stale");
  after_next_look = [&] {
    std::filesystem::rename(pipe, other);
    std::filesystem::create_symlink(other, pipe);
  };
  expect_throws<DataError>([&] { write_text(pipe, "text"); },
                           "pipe must be writable; got \"Too many levels of symbolic links");
  char byte;
  EXPECT_EQ(read(reader, &byte, 1), 0);
  close(reader);
}

TEST(AtomicFilePathTest, AFileWithoutANameIsWrittenIntoThroughItsLinkInProc) {
  const Folder folder;
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(ends[1]), folder / "link");
  char bytes[8];
  for (const auto& path :
       {folder / "link", std::filesystem::path("/dev/fd") / std::to_string(ends[1])}) {
    write_text(path, "text");
    EXPECT_EQ(read(ends[0], bytes, sizeof bytes), 4) << path;
  }
  const int file = ::open((folder / "gone").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  std::filesystem::remove(folder / "gone");
  write_text("/proc/self/fd/" + std::to_string(file), "text");
  EXPECT_EQ(pread(file, bytes, sizeof bytes, 0), 4);
  EXPECT_EQ(folder.files(), std::vector<std::string>{"link"});
  for (const int number : {ends[0], ends[1], file}) close(number);
}

// The umask is the process's.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(umask(mask)) {}
  ~Umask() { umask(before_); }

 private:
  mode_t before_;
};

TEST(AtomicFilePathTest, ANewFileHasTheUmasksModeAndAnExistingOneKeepsItsOwn) {
  const Folder folder;
  for (const mode_t mask : {022u, 077u, 002u}) {
    const Umask set(mask);
    const auto path = folder / std::to_string(mask);
    write_text(path, "new");
    EXPECT_EQ(mode_of(path), 0666u & ~mask);
    for (const mode_t mode : {0640u, 0755u, 0600u}) {
      ASSERT_EQ(chmod(path.c_str(), mode), 0);
      write_text(path, "again");
      EXPECT_EQ(mode_of(path), mode);
    }
  }
}

TEST(AtomicFilePathTest, APrivateFileIsItsWritersAloneWhateverWasThere) {
  const Folder folder;
  const auto path = folder / "private";
  const auto write = [&] { AtomicFile(path, {.is_private = true}).commit(); };
  write();
  EXPECT_EQ(mode_of(path), 0600u);
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  [[maybe_unused]] const int given = chown(path.c_str(), 1234, 4321);  // by root
  write();
  struct stat facts {};
  ASSERT_EQ(stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  EXPECT_EQ(facts.st_uid, geteuid());
}

TEST(AtomicFilePathTest, AnExistingFileKeepsItsOwner) {
  const Folder folder;
  write_bytes(folder / "file", "theirs");
  if (chown((folder / "file").c_str(), 1234, 4321) != 0) GTEST_SKIP() << "not root";
  write_text(folder / "file", "new");
  struct stat facts {};
  ASSERT_EQ(stat((folder / "file").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_uid, 1234u);
  EXPECT_EQ(facts.st_gid, 4321u);
  EXPECT_EQ(bytes_of(folder / "file"), "new");
}

TEST(AtomicFilePathTest, APipesReaderGetsTheFileAndThePipeStays) {
  const Folder folder;
  const auto pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = bytes_of(pipe); });  // may come later than the writer
  const std::string text(100'000, 'x');               // more than a pipe holds
  AtomicFile file(pipe);
  file.write("----");
  file.write(text);
  file.overwrite(0, std::as_bytes(std::span("head", 4)));
  file.commit();
  reader.join();
  EXPECT_EQ(got, "head" + text);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_EQ(folder.files(), std::vector<std::string>{"pipe"});
}

TEST(AtomicFilePathTest, AReaderThatLeavesIsAnErrorAndNoSignal) {
  const Folder folder;
  const auto pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  AtomicFile file(pipe);
  close(reader);
  file.write("text");
  expect_throws<DataError>([&] { file.commit(); }, "pipe must be writable; got \"Broken pipe\"");
}

TEST(AtomicFilePathTest, ADeviceIsWrittenIntoAndStays) {
  for (const char* device : {"/dev/null", "/dev/full"}) {
    const bool is_full = std::string(device) == "/dev/full";
    const auto call = [&] { write_text(device, "text"); };
    if (is_full)
      expect_throws<DataError>(call, "test: /dev/full must be writable; got \"No space left");
    else
      call();
    EXPECT_TRUE(std::filesystem::is_character_file(device));
    EXPECT_FALSE(std::filesystem::exists(std::string(device) + ".ringrad-tmp"));
  }
}

// Opening it by its name would start a redirected file anew.
TEST(AtomicFilePathTest, TheStandardOutputGoesOn) {
  const Folder folder;
  ::testing::internal::CaptureStdout();
  std::printf("before ");
  write_text("/dev/stdout", "within ");
  std::printf("after");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "before within after");
}

TEST(AtomicFilePathTest, WhatIsNoFileIsRefused) {
  const Folder folder;
  expect_throws<DataError>([&] { write_text(folder.path(), ""); }, "got \"Is a directory\"");
  expect_throws<DataError>([] { write_text("", ""); }, "must name a file");
  expect_throws<DataError>([&] { write_text(folder / "none" / "x", ""); },
                           "must lie in a folder that can be opened; got \"No such file");
}

}  // namespace
}  // namespace ringrad
