// What a path means to every function that writes a file (core/file/atomic_file.h).

#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/tests/nn/checkpoint/folder.h"

namespace ringrad::testing {

inline mode_t mode_of(const std::filesystem::path& path) {
  struct stat facts {};
  EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
  return facts.st_mode & 0777;
}

/// `write` writes the same bytes, which are not empty, to any path.
inline void expect_file_rules(const std::function<void(const std::filesystem::path&)>& write) {
  const Folder folder;
  write(folder / "plain");
  const std::string bytes = bytes_of(folder / "plain");
  ASSERT_FALSE(bytes.empty());
  write_bytes(folder / "ordinary", "");
  EXPECT_EQ(mode_of(folder / "plain"), mode_of(folder / "ordinary"));

  ASSERT_EQ(chmod((folder / "plain").c_str(), 0604), 0);
  std::filesystem::create_symlink("plain", folder / "link");
  write_bytes(folder / "plain", "old");
  write(folder / "link");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(bytes_of(folder / "plain"), bytes);
  EXPECT_EQ(mode_of(folder / "plain"), 0604u);

  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::string piped;
  std::thread reader([&] { piped = bytes_of(folder / "pipe"); });
  write(folder / "pipe");
  reader.join();
  EXPECT_EQ(piped, bytes);
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));

  write("/dev/null");
  std::string error;
  try {
    write("/dev/full");
  } catch (const DataError& caught) {
    error = caught.message();
  }
  const std::string rule = "/dev/full must be writable; got \"No space left on device\"";
  EXPECT_TRUE(error.ends_with(rule)) << error;
  for (const char* device : {"/dev/null", "/dev/full"})
    EXPECT_TRUE(std::filesystem::is_character_file(device)) << device;
  EXPECT_EQ(folder.files(), (std::vector<std::string>{"link", "ordinary", "pipe", "plain"}));
}

}  // namespace ringrad::testing
