// AtomicFile: a file that is there as a whole or not at all.
//
//     write   ->  weights.tmp       fsync          what is written is on the disk
//     commit  ->  weights.tmp  ->  weights         rename: who opens it finds the old file or the new one
//                 the folder        fsync          and so it is after a power failure
//
// A process may be killed, or the disk full, at any moment: until commit() has begun the old file is what it was,
// and once it has returned the new one stays. What a killed process leaves is one file .tmp, which the next save
// overwrites. Two processes that save to one path at a time are told apart by a lock on it.
//
// A writer of a numbered generation (nn/checkpoint.h) has a temporary file of its own, so that a writer which was
// stopped in the middle does not block its successor. Such a writer passes commit() a check of the file that is there.
// It renames its own only if the checked file still has the name, under the lock file "weights.lock": no other such writer
// can replace the file in between.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "core/error.h"

namespace ringrad::nn {

class AtomicFile {
 public:
  /// Throws: DataError if there can be no such file, or another process is writing it
  explicit AtomicFile(const std::filesystem::path& path, Where where = Where::current());
  /// Writes "weights.<generation>.tmp". REQUIRES: generation > 0
  AtomicFile(const std::filesystem::path& path, std::int64_t generation,
             Where where = Where::current());
  /// Without commit() nothing stays.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws: DataError, such as for a disk that is full
  void write(std::span<const std::byte> bytes);

  /// Changes what has been written.
  void overwrite(std::int64_t offset, std::span<const std::byte> bytes);

  /// Puts the file in its place. Throws: DataError, and then the old file is there; if the disk fails while it notes
  /// that the file has been replaced, one of the two
  void commit();

  /// The same, if `check` does not throw. Removes temporary files of earlier generations.
  ///
  /// Throws: DataError also if another process holds the lock for longer than 10 s
  void commit(const std::function<void()>& check);

 private:
  void open();
  void sync();
  void replace();
  void sync_folder();
  void remove_earlier_temporaries() const;
  void close_all();
  /// Throws DataError with what errno says, unless `succeeded`.
  void check(bool succeeded, const char* what) const;

  const std::filesystem::path path_;
  const std::int64_t generation_ = 0;  // 0: none
  const std::filesystem::path temporary_;
  const Where where_;
  int file_ = -1, folder_ = -1;
  bool committed_ = false;
};

}  // namespace ringrad::nn
