// AtomicFile: a file that appears either as a whole or not at all.
//
//     write   ->  weights.tmp       fsync          what is written is on the disk
//     commit  ->  weights.tmp  ->  weights         rename: readers find the old file or the new
//                 the folder        fsync          the rename survives a power failure
//
// A process may be killed, or the disk may fill up, at any moment. Until commit() starts, the old
// file is unchanged; once commit() has returned, the new file stays. A killed process leaves one
// .tmp file, which the next save overwrites. A lock on that file keeps two processes from saving to
// one path at a time.
//
// A writer of a numbered generation (nn/checkpoint/checkpoint.h) has its own temporary file, so
// that a writer stopped halfway does not block its successor. Such a writer passes commit() a check
// of the existing file. It renames its own file only if the checked file still has the name. It
// does so under the lock file "weights.lock", so that no other such writer can replace the file in
// between.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "ringrad/core/error.h"

namespace ringrad::nn {

class AtomicFile {
 public:
  /// Throws:  DataError if there can be no such file, or another process is writing it
  explicit AtomicFile(const std::filesystem::path& path, Where where = Where::current());
  /// Writes "weights.<generation>.tmp". REQUIRES: generation > 0
  AtomicFile(const std::filesystem::path& path, std::int64_t generation,
             Where where = Where::current());
  /// Removes the temporary file unless commit() has succeeded.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends the bytes. Throws DataError, for example if the disk is full.
  void write(std::span<const std::byte> bytes);

  /// Changes bytes that have been written.
  void overwrite(std::int64_t offset, std::span<const std::byte> bytes);

  /// Puts the file in its place. Throws DataError. The old file is then still there, except if the
  /// disk fails while it records the replacement: then either file may be there.
  void commit();

  /// The same, unless `check` throws. Removes temporary files of earlier generations.
  ///
  /// Throws:  DataError also if another process holds the lock for longer than 10 s
  void commit(const std::function<void()>& check);

 private:
  void open();
  void sync();
  void replace();
  void sync_folder();
  void remove_earlier_temporaries() const;
  void close_all();
  /// Throws DataError with the message of errno, unless `succeeded`.
  void check(bool succeeded, const char* what) const;

  const std::filesystem::path path_;
  const std::int64_t generation_ = 0;  // 0: none
  const std::filesystem::path temporary_;
  const Where where_;
  int file_ = -1, folder_ = -1;
  bool committed_ = false;
};

}  // namespace ringrad::nn
