// AtomicFile: the one way in which the library and its tools write a file.
//
//     write   ->  weights.ringrad-tmp     fsync      what is written is on the disk
//     commit  ->  ...-tmp  ->  weights    rename     readers find the old file or the new
//                 the folder              fsync      the rename survives a power failure
//
// A process may be killed, or the disk may fill up, at any moment. Until commit() starts, the old
// file is unchanged; once commit() has returned, the new file stays. A killed process leaves one
// .ringrad-tmp file, which the next save overwrites or, for a file with versions, removes.
//
// The path means what it means to other programs. A symbolic link is followed: the file that it
// names is written, and the link stays. A new file has the mode that the umask gives it; an
// existing one keeps its mode and, where the system allows it, its owner. A read-only file is
// refused. A pipe, a device or this process's standard output is written into, at commit(); a
// pipe's reader may come up to 10 s late. Other names (hard links) of an existing file keep the old
// contents. In a folder that is open to all, such as /tmp, a link or a pipe of another user is
// refused.
//
// Files that grow as a program runs, such as traces, are opened in place instead.

#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringrad/core/base/error.h"

namespace ringrad {

struct AtomicFileOptions {
  std::string operation = "save";  ///< opens messages: "save: weights must ...; got ..."
  /// If several writers may be stopped and go on at any time, the one with the greatest version
  /// wins. Versions compare as texts, so all versions of a file must have the same length.
  std::string version = "";
  /// Each writer has a temporary file of its own, which stays if the process is killed, and the
  /// last one wins. Else only one process at a time may write the file.
  bool has_many_writers = false;
  /// The file has mode 0600 and is this user's, whatever was there before.
  bool is_private = false;
  /// False for a file that may be lost in a power failure: its writer does not wait for the disk.
  bool is_durable = true;
};

class AtomicFile {
 public:
  /// Throws:  DataError if there can be no such file, or another process is writing it
  explicit AtomicFile(const std::filesystem::path& path, const AtomicFileOptions& options = {},
                      Where where = Where::current());
  /// Removes the temporary file unless commit() has succeeded.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends the bytes. Throws DataError, for example if the disk is full.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// Changes bytes that have been written.
  void overwrite(std::int64_t offset, std::span<const std::byte> bytes);

  /// Puts the file in its place. Throws DataError. The old file is then still there, except if the
  /// disk fails while it records the replacement: then either file may be there.
  void commit();

  /// The same for a file with a version. `check` must read the existing file, and throw if its
  /// version is later; the existing file then stays. No writer waits for another. A writer that was
  /// stopped and goes on does not replace a file of a later version.
  ///
  /// Throws:  DataError also if a later version is being written, or has removed this writer's file
  void commit(const std::function<void()>& check);

 private:
  void open();
  void open_stream(const struct stat& facts, int flags);
  void open_temporary();
  void write_all(std::span<const std::byte> bytes);
  void sync();
  void commit_stream();
  void sync_folder();
  std::filesystem::path followed() const;
  std::vector<std::filesystem::path> temporaries_of_others() const;
  void refuse_later_writers() const;
  void close_all();
  /// Throws DataError with the message of errno, unless `succeeded`.
  void check(bool succeeded, const char* what) const;

  const std::filesystem::path path_;
  const AtomicFileOptions options_;
  const Where where_;
  std::filesystem::path target_, temporary_;  // empty if the file is a stream
  std::vector<std::byte> stream_;             // what a stream gets
  int file_ = -1, folder_ = -1;
  mode_t mode_ = 0;  // of the new file
  uid_t owner_ = 0;  // of the existing file
  gid_t group_ = 0;  // of the existing file
  bool has_owner_ = false, committed_ = false;
};

/// Writes a file as a whole or not at all. Of several writers at a time the last one wins.
///
/// Throws:  DataError "<operation>: <path> must ...; got <the system's words>"
void write_file(const std::string& operation, const std::filesystem::path& path,
                std::string_view contents, Where where = Where::current());

}  // namespace ringrad
