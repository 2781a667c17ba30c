#include "nn/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace ringrad::nn {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path, Where where)
    : path_(path), temporary_(path.string() + ".tmp"), where_(where) {
  try {
    open();
  } catch (...) {
    close_all();
    throw;
  }
}

void AtomicFile::close_all() {
  for (const int file : {file_, folder_})
    if (file >= 0) close(file);
}

// Who holds the lock owns the name: it is checked after, because a writer before us may have renamed the file
// that we have opened. Not to block: a pipe of that name would wait for somebody to read from it.
void AtomicFile::open() {
  folder_ = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  check(folder_ >= 0, "lie in a folder that can be opened");
  constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  for (;;) {
    file_ = ::open(temporary_.c_str(), kFlags, 0666);
    check(file_ >= 0, "be writable");
    check(flock(file_, LOCK_EX | LOCK_NB) == 0, "be written by one process at a time");
    struct stat ours {
    }, named{};
    check(fstat(file_, &ours) == 0, "be writable");
    if (stat(temporary_.c_str(), &named) == 0 && named.st_ino == ours.st_ino &&
        named.st_dev == ours.st_dev)
      break;
    close(std::exchange(file_, -1));
  }
  check(ftruncate(file_, 0) == 0, "be writable");
}

AtomicFile::~AtomicFile() {
  if (!committed_) unlink(temporary_.c_str());
  close_all();
}

void AtomicFile::check(bool succeeded, const char* what) const {
  if (succeeded) return;
  const std::string reason = std::generic_category().message(errno);
  throw DataError(concat("save: ", path_.string(), " must ", what, "; got \"", reason, "\" for ",
                         temporary_.string()),
                  where_);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    check(count >= 0, "be writable");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void AtomicFile::overwrite(std::int64_t offset, std::span<const std::byte> bytes) {
  check(pwrite(file_, bytes.data(), bytes.size(), offset) == std::ssize(bytes), "be writable");
}

void AtomicFile::commit() {
  check(fsync(file_) == 0, "be written to the disk");
  check(rename(temporary_.c_str(), path_.c_str()) == 0, "be replaceable");
  committed_ = true;
  const bool synced = fsync(folder_) == 0 || errno == EINVAL;  // file systems without such a thing
  check(synced, "be written to the disk");
}

}  // namespace ringrad::nn
