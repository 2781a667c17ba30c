#include "ringrad/nn/checkpoint/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <ios>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "ringrad/nn/checkpoint/generation.h"

namespace ringrad::nn {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

bool are_same(int file, const std::filesystem::path& path) {
  struct stat ours {
  }, named{};
  return fstat(file, &ours) == 0 && stat(path.c_str(), &named) == 0 &&
         named.st_ino == ours.st_ino && named.st_dev == ours.st_dev;
}

// The mode of files that this process makes in the usual way. umask() could return it only by
// changing it for all threads.
mode_t usual_mode() {
  static const mode_t mode = [] {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
      if (mode_t mask = 0; word == "Umask:" && status >> std::oct >> mask) return 0666 & ~mask;
    return mode_t{0600};
  }();
  return mode;
}

// In a folder that other users may write to, another user could have put a file under the name, to
// read or change the written data, or a link to another file of this user.
bool is_ours_alone(int file) {
  struct stat facts {};
  errno = EPERM;
  return fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == geteuid() &&
         facts.st_nlink == 1;
}

// Identifies the file that has a name. Every replacement of the file changes it; all zeros if there
// is none.
struct Identity {
  dev_t device = 0;
  ino_t number = 0;
  off_t size = 0;
  std::int64_t seconds = 0, nanoseconds = 0;  // of the last change of its contents

  bool operator==(const Identity&) const = default;
};

Identity identity_of(const std::filesystem::path& path) {
  struct stat facts {};
  if (lstat(path.c_str(), &facts) != 0) return {};
  return {facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec};
}

// A lock that processes share by a file's name. The holder removes the file, so a process that gets
// the lock checks that its file still has the name. The folder itself is not locked, because
// network file systems lock folders on one host only.
class LockFile {
 public:
  /// Throws DataError after 10 s, or at once if there can be no such lock.
  LockFile(const std::filesystem::path& path, Where where) : path_(path.string() + ".lock") {
    constexpr auto kPatience = std::chrono::seconds(10);
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!try_lock()) {
      const bool may_be_free_soon = error_ == 0 || error_ == EWOULDBLOCK;
      RINGRAD_CHECK(may_be_free_soon && std::chrono::steady_clock::now() < until, DataError, where,
                    "save: ", path_.string(), " must be free within 10 s; got \"",
                    std::generic_category().message(error_), '"');
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  ~LockFile() {
    unlink(path_.c_str());
    close(file_);
  }
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

 private:
  bool try_lock() {
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    const bool is_locked = file_ >= 0 && flock(file_, LOCK_EX | LOCK_NB) == 0;
    error_ = is_locked ? 0 : errno;
    if (is_locked && are_same(file_, path_)) return true;
    if (file_ >= 0) close(std::exchange(file_, -1));
    return false;
  }

  const std::filesystem::path path_;
  int file_ = -1, error_ = 0;
};

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path, std::int64_t generation, Where where)
    : path_(path),
      generation_(generation),
      temporary_(path.string() + '.' + generation_digits(generation) + ".tmp"),
      where_(where) {
  try {
    open();
  } catch (...) {
    close_all();
    throw;
  }
}

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

// The holder of the lock owns the name. The name is checked after locking, because an earlier
// writer may have renamed the file that was opened. O_NONBLOCK: opening a pipe of that name would
// wait for a reader.
void AtomicFile::open() {
  folder_ = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  check(folder_ >= 0, "lie in a folder that can be opened");
  constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  for (;;) {
    file_ = ::open(temporary_.c_str(), kFlags, 0600);
    check(file_ >= 0, "be writable");
    check(flock(file_, LOCK_EX | LOCK_NB) == 0, "be written by one process at a time");
    if (are_same(file_, temporary_)) break;
    close(std::exchange(file_, -1));
  }
  check(is_ours_alone(file_), "have a temporary file of this user's alone");
  usual_mode();  // reads a file: later the process may have no descriptor left
  [[maybe_unused]] const int closed =
      fchmod(file_, 0600);  // a file left behind may be open to others
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

void AtomicFile::sync() {
  [[maybe_unused]] const int opened =
      fchmod(file_, usual_mode());  // some file systems have no modes
  check(fsync(file_) == 0, "be written to the disk");
}

void AtomicFile::replace() {
  check(rename(temporary_.c_str(), path_.c_str()) == 0, "be replaceable");
  committed_ = true;
}

void AtomicFile::sync_folder() {
  const bool synced = fsync(folder_) == 0 || errno == EINVAL;  // EINVAL: no syncing of folders
  check(synced, "be written to the disk");
}

void AtomicFile::commit() {
  sync();
  replace();
  sync_folder();
}

// The lock covers only the comparison and the rename, so a process is unlikely to be stopped while
// it holds the lock. The check may read a large file, so it comes before the lock. It is repeated
// if another process has replaced the file since.
void AtomicFile::commit(const std::function<void()>& check) {
  sync();
  while (!committed_) {
    const Identity checked = identity_of(path_);
    check();
    const LockFile lock(path_, where_);
    if (identity_of(path_) == checked) replace();
  }
  sync_folder();
  remove_earlier_temporaries();
}

// The writers of these files have been killed, or will find that their generation is too old.
void AtomicFile::remove_earlier_temporaries() const {
  const std::string ours = temporary_.filename();
  const std::size_t digits_at = ours.size() - kGenerationDigits - 4;
  std::error_code ignored;
  std::filesystem::directory_iterator entry(folder_of(path_), ignored);
  for (; entry != std::filesystem::directory_iterator(); entry.increment(ignored)) {
    const std::string name = entry->path().filename();
    if (generation_ > 0 && name.size() == ours.size() && name.ends_with(".tmp") &&
        name.compare(0, digits_at, ours, 0, digits_at) == 0 && name < ours)
      std::filesystem::remove(entry->path(), ignored);
  }
}

}  // namespace ringrad::nn
