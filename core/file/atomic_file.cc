#include "ringrad/core/file/atomic_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <ios>
#include <locale>
#include <system_error>
#include <thread>
#include <utility>

#include "ringrad/core/file/quiet_writes.h"

namespace ringrad {
namespace {

constexpr std::string_view kSuffix = ".ringrad-tmp";  // no file of a user's own ends so
constexpr auto kPatience = std::chrono::seconds(10);
constexpr auto kTick = std::chrono::milliseconds(5);

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

bool are_same(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

bool are_same(const std::filesystem::path& a, const std::filesystem::path& b) {
  struct stat of_a {
  }, of_b{};
  return stat(a.c_str(), &of_a) == 0 && stat(b.c_str(), &of_b) == 0 && are_same(of_a, of_b);
}

bool are_same(int file, const std::filesystem::path& path) {
  struct stat ours {
  }, named{};
  return fstat(file, &ours) == 0 && stat(path.c_str(), &named) == 0 && are_same(ours, named);
}

// The mode of files that this process makes in the usual way. umask() could return it only by
// changing it for all threads.
mode_t usual_mode() {
  std::ifstream status("/proc/self/status");
  status.imbue(std::locale::classic());
  for (std::string word; status >> word;)
    if (mode_t mask = 0; word == "Umask:" && status >> std::oct >> mask) return 0666 & ~mask;
  return mode_t{0600};
}

// In a folder that other users may write to, another user could have put a file under the name, to
// read or change the written data, or a link to another file of this user.
bool is_ours_alone(int file) {
  struct stat facts {};
  errno = EPERM;
  return fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == geteuid() &&
         facts.st_nlink == 1;
}

// For the same reason no link or pipe of another user is used there, as Linux has it in
// fs.protected_symlinks and fs.protected_fifos.
bool may_use(const std::filesystem::path& path, const struct stat& facts) {
  struct stat folder {};
  constexpr mode_t kOpenToAll = S_ISVTX | S_IWOTH;
  return stat(folder_of(path).c_str(), &folder) != 0 ||
         (folder.st_mode & kOpenToAll) != kOpenToAll || facts.st_uid == geteuid() ||
         facts.st_uid == folder.st_uid;
}

// Links there may lead to files that have no name, and are the system's own.
bool is_in_proc(const std::filesystem::path& path) {
  struct statfs facts {};
  return statfs(folder_of(path).c_str(), &facts) == 0 && facts.f_type == PROC_SUPER_MAGIC;
}

// The number of the standard output or error that the path names, or -1. Opening it by its path
// would start a file anew, and cannot open a socket.
int standard_stream(const std::filesystem::path& path, const struct stat& facts) {
  const std::string& text = path.native();
  const bool is_asked_for = text.starts_with("/dev/") || text.starts_with("/proc/");
  struct stat stream {};
  for (const int number : {STDOUT_FILENO, STDERR_FILENO})
    if (fstat(number, &stream) == 0 && are_same(stream, facts) &&
        (is_asked_for || !S_ISREG(facts.st_mode)))
      return number;
  return -1;
}

// True while another process, or another object of this one, has the file locked.
bool is_locked(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  const bool result = flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(file);
  return result;
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path, const AtomicFileOptions& options,
                       Where where)
    : path_(path), options_(options), where_(where) {
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

void AtomicFile::open() {
  errno = ENOENT;
  check(path_.has_filename(), "name a file");
  target_ = followed();
  struct stat facts {};
  std::error_code ignored;
  const bool has_name = !is_in_proc(target_) || !std::filesystem::is_symlink(target_, ignored);
  const bool exists =
      fstatat(AT_FDCWD, target_.c_str(), &facts, has_name ? AT_SYMLINK_NOFOLLOW : 0) == 0;
  errno = EISDIR;
  check(!exists || !S_ISDIR(facts.st_mode), "be replaceable");
  if (exists && (!has_name || !S_ISREG(facts.st_mode) || standard_stream(path_, facts) >= 0))
    return open_stream(facts, has_name ? O_NOFOLLOW : 0);  // a link may have come meanwhile
  if (exists) check(faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) == 0, "be writable");
  mode_ = options_.is_private ? mode_t{0600}
          : exists            ? facts.st_mode & 0777
                              : usual_mode();  // later there may be no descriptor left to read it
  has_owner_ = exists && !options_.is_private;
  owner_ = facts.st_uid;
  group_ = facts.st_gid;
  open_temporary();
}

// The file that the path names, whether or not there is one. If it has no name, the link to it.
std::filesystem::path AtomicFile::followed() const {
  constexpr int kMostLinks = 40;  // as Linux has it
  std::filesystem::path at = path_;
  for (int links = 0; links < kMostLinks; ++links) {
    struct stat facts {};
    if (lstat(at.c_str(), &facts) != 0 || !S_ISLNK(facts.st_mode)) return at;
    errno = EACCES;
    check(may_use(at, facts), "be no link of another user in a folder that is open to all");
    std::error_code error;
    const std::filesystem::path to = std::filesystem::read_symlink(at, error);
    errno = error.value();
    check(!error, "be writable");
    const std::filesystem::path next = folder_of(at) / to;
    if (is_in_proc(at) && !are_same(at, next)) return at;
    at = next;
  }
  errno = ELOOP;
  check(false, "be writable");
  return {};
}

// O_NONBLOCK: opening a pipe would wait for its reader for ever. It is given up afterwards, because
// a reader may be slow.
void AtomicFile::open_stream(const struct stat& facts, int flags) {
  const std::filesystem::path path = std::exchange(target_, {});
  if (const int number = standard_stream(path_, facts); number >= 0) {
    std::fflush(number == STDOUT_FILENO ? stdout : stderr);
    file_ = fcntl(number, F_DUPFD_CLOEXEC, 0);
    return check(file_ >= 0, "be writable");
  }
  errno = EACCES;
  check(!S_ISFIFO(facts.st_mode) || may_use(path, facts),
        "be no pipe of another user in a folder that is open to all");
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    file_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags);
    const bool may_come = file_ < 0 && errno == ENXIO && S_ISFIFO(facts.st_mode);
    if (!may_come || std::chrono::steady_clock::now() > until) break;
    std::this_thread::sleep_for(kTick);
  }
  check(file_ >= 0, "be writable");
  struct stat opened {};
  errno = ESTALE;
  check(fstat(file_, &opened) == 0 && are_same(opened, facts),
        "stay the same file while it is opened");
  check(fcntl(file_, F_SETFL, fcntl(file_, F_GETFL) & ~O_NONBLOCK) == 0, "be writable");
}

// The holder of the lock owns the name. The name is checked after locking, because an earlier
// writer may have renamed the file that was opened. O_NONBLOCK: opening a pipe of that name would
// wait for a reader.
void AtomicFile::open_temporary() {
  folder_ = ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  check(folder_ >= 0, "be writable and must lie in a folder that can be opened");
  if (options_.has_many_writers) {
    std::string name = target_.string() + ".XXXXXX";
    file_ = mkostemp(name.data(), O_CLOEXEC);
    if (file_ >= 0) temporary_ = name;
    return check(file_ >= 0, "be writable");
  }
  const std::string version = options_.version.empty() ? "" : '.' + options_.version;
  temporary_ = concat(target_.string(), version, kSuffix);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  constexpr int kTries = 200;  // a writer that looks whether another one lives locks for a moment
  for (int tries = 1;; ++tries) {
    file_ = ::open(temporary_.c_str(), kFlags, 0600);
    check(file_ >= 0, "be writable");
    const bool has_lock = flock(file_, LOCK_EX | LOCK_NB) == 0;
    const bool may_be_free_soon =
        !options_.version.empty() && errno == EWOULDBLOCK && tries < kTries;
    check(has_lock || may_be_free_soon, "be written by one process at a time");
    if (has_lock && are_same(file_, temporary_)) break;
    close(std::exchange(file_, -1));
    if (!has_lock) std::this_thread::sleep_for(kTick);
  }
  check(is_ours_alone(file_), "have a temporary file of this user's alone");
  [[maybe_unused]] const int closed =
      fchmod(file_, 0600);  // a file left behind may be open to others
  check(ftruncate(file_, 0) == 0, "be writable");
}

AtomicFile::~AtomicFile() {
  if (!committed_ && !temporary_.empty()) unlink(temporary_.c_str());
  close_all();
}

void AtomicFile::check(bool succeeded, const char* what) const {
  if (succeeded) return;
  const std::string reason = std::generic_category().message(errno);
  throw DataError(concat(options_.operation, ": ", path_.string(), " must ", what, "; got \"",
                         reason, '"', temporary_.empty() ? "" : " for ", temporary_.string()),
                  where_);
}

void AtomicFile::write_all(std::span<const std::byte> bytes) {
  const QuietWrites quiet;
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = ENOSPC;
    check(count > 0, "be writable");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (target_.empty())
    stream_.insert(stream_.end(), bytes.begin(), bytes.end());
  else
    write_all(bytes);
}

void AtomicFile::overwrite(std::int64_t offset, std::span<const std::byte> bytes) {
  if (target_.empty()) {
    std::copy(bytes.begin(), bytes.end(), stream_.begin() + offset);
    return;
  }
  const QuietWrites quiet;
  errno = ENOSPC;  // of a short write
  check(pwrite(file_, bytes.data(), bytes.size(), offset) == std::ssize(bytes), "be writable");
}

void AtomicFile::sync() {
  if (has_owner_) {
    [[maybe_unused]] const int given = fchown(file_, owner_, group_);  // the superuser may
  }
  [[maybe_unused]] const int opened = fchmod(file_, mode_);  // some file systems have no modes
  check(!options_.is_durable || fsync(file_) == 0, "be written to the disk");
}

// A pipe's reader waits until the file is closed.
void AtomicFile::commit_stream() {
  write_all(stream_);
  check(close(std::exchange(file_, -1)) == 0, "be writable");
  committed_ = true;
}

void AtomicFile::sync_folder() {
  if (!options_.is_durable) return;
  const bool synced = fsync(folder_) == 0 || errno == EINVAL;  // EINVAL: no syncing of folders
  check(synced, "be written to the disk");
}

void AtomicFile::commit() {
  if (target_.empty()) return commit_stream();
  sync();
  check(rename(temporary_.c_str(), target_.c_str()) == 0, "be replaceable");
  committed_ = true;
  sync_folder();
}

// Let G be a later version than ours. In this order nothing of ours replaces what G has put there:
// our temporary file was made before we look for others. If G removes the files of earlier versions
// after that, our rename fails, or comes before G's. If G has removed them before that, its own
// file was there even earlier: we find it in the folder, or else, renamed, by `check`.
void AtomicFile::commit(const std::function<void()>& check_existing) {
  if (target_.empty()) return commit_stream();
  sync();
  refuse_later_writers();
  check_existing();
  std::error_code ignored;
  for (const auto& other : temporaries_of_others())
    if (other < temporary_) std::filesystem::remove(other, ignored);
  const bool is_replaced = rename(temporary_.c_str(), target_.c_str()) == 0;
  if (!is_replaced && errno == ENOENT) {
    check_existing();  // names the version that has removed our file, unless it is not there yet
    throw DataError(
        concat(options_.operation, ": ", path_.string(),
               " must be written by the latest run; got a later one, which has removed ",
               temporary_.string()),
        where_);
  }
  check(is_replaced, "be replaceable");
  committed_ = true;
  sync_folder();
}

// Another version's temporary files have names of the same length.
std::vector<std::filesystem::path> AtomicFile::temporaries_of_others() const {
  const std::string ours = temporary_.filename(), front = target_.filename().string() + '.';
  std::vector<std::filesystem::path> others;
  std::error_code ignored;
  std::filesystem::directory_iterator entry(folder_of(target_), ignored);
  for (; entry != std::filesystem::directory_iterator(); entry.increment(ignored)) {
    const std::string name = entry->path().filename();
    if (name != ours && name.size() == ours.size() && name.starts_with(front) &&
        name.ends_with(kSuffix))
      others.push_back(temporary_.parent_path() / name);
  }
  return others;
}

// The file of a writer that was killed is not locked.
void AtomicFile::refuse_later_writers() const {
  for (const auto& other : temporaries_of_others())
    RINGRAD_CHECK(other < temporary_ || !is_locked(other), DataError, where_, options_.operation,
                  ": ", path_.string(), " must be written by the latest run; got a later one's ",
                  other.string(), ", which is being written");
}

void write_file(const std::string& operation, const std::filesystem::path& path,
                std::string_view contents, Where where) {
  AtomicFile file(path, {.operation = operation, .has_many_writers = true}, where);
  file.write(contents);
  file.commit();
}

}  // namespace ringrad
