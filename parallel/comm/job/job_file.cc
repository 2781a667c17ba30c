#include "ringrad/parallel/comm/job/job_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <locale>
#include <sstream>

#include "ringrad/parallel/comm/common/process_state.h"
#include "ringrad/parallel/comm/common/system_limits.h"

namespace ringrad {
namespace {

constexpr std::size_t kMostFileBytes = 256;  // a port and a token

// --- Whose job it is ---

// The environment of another user's launcher cannot be read; and no launcher of this user has told
// it a rank.
bool is_told(pid_t process, const std::string& variable) {
  std::ifstream file(concat("/proc/", process, "/environ"), std::ios::binary);
  const std::string variables{std::istreambuf_iterator<char>(file), {}};
  return ('\0' + variables).find('\0' + variable + '=') != std::string::npos;
}

std::string launcher_of(const RankEnvironment& job) {
  pid_t process = getppid();
  while (process != 0 && is_told(process, job.rank_variable))
    process = process_stat(process).parent;
  return concat(process, '-', process_stat(process).start);
}

std::string process_namespace() {
  struct stat space {};
  return std::to_string(stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0);
}

std::string name_of(const RankEnvironment& job) {
  return concat(process_namespace(), '-', launcher_of(job), '-',
                std::hash<std::string>()(job.identity));
}

// --- The folder ---

std::string folder_of_user() {
  std::error_code none;
  const auto folder = std::filesystem::temp_directory_path(none);
  return concat(none ? "/tmp" : folder.string(), "/ringrad-", geteuid());
}

bool is_own(int file, mode_t type) {
  struct stat status {};
  return fstat(file, &status) == 0 && (status.st_mode & S_IFMT) == type &&
         status.st_uid == geteuid() && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

Descriptor open_folder(const std::string& path, Where where) {
  mkdir(path.c_str(), S_IRWXU);
  Descriptor folder(open(path.c_str(), O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  RINGRAD_CHECK(folder.is_open() && is_own(folder.number(), S_IFDIR), CollectiveError, where,
                "group: ranks meet by a file in ", path,
                ", which must be a folder of this user with mode 0700; got ",
                folder.is_open() ? "another owner or mode" : text_of_errno(errno),
                ". Remove it, or ", kHowToShareSecret);
  return folder;
}

}  // namespace

JobFile::JobFile(const RankEnvironment& job, Where where)
    : folder_path_(folder_of_user()),
      name_(name_of(job)),
      folder_(open_folder(folder_path_, where)) {}

JobFile::~JobFile() {
  if (writer_ != getpid()) return;  // nor does a forked child remove it
  const auto present = read();
  if (present && present->token == written_by_token_) unlinkat(folder_.number(), name_.c_str(), 0);
}

std::optional<StoreAddress> JobFile::read() const {
  const Descriptor file(
      openat(folder_.number(), name_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open() || !is_own(file.number(), S_IFREG)) return {};
  char bytes[kMostFileBytes];
  const ssize_t count = ::read(file.number(), bytes, sizeof bytes);
  std::istringstream words(
      std::string(bytes, static_cast<std::size_t>(std::max<ssize_t>(count, 0))));
  words.imbue(std::locale::classic());
  StoreAddress address;
  if (!(words >> address.port >> address.token)) return {};
  return address;
}

void JobFile::write(const StoreAddress& address, Where where) {
  remove_those_of_the_past();
  const std::string draft = "new-" + make_token(),
                    text = concat(address.port, ' ', address.token, '\n');
  Descriptor file(openat(folder_.number(), draft.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  const bool good =
      file.is_open() &&
      ::write(file.number(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      renameat(folder_.number(), draft.c_str(), folder_.number(), name_.c_str()) == 0;
  const int error = errno;
  if (!good && file.is_open()) unlinkat(folder_.number(), draft.c_str(), 0);
  RINGRAD_CHECK(good, CollectiveError, where, "group: rank 0 must write ", path(),
                ", by which the ranks meet; got ", text_of_errno(error));
  written_by_token_ = address.token;
  writer_ = getpid();
}

void JobFile::remove_those_of_the_past() const {
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(folder_path_, gone)) {
    const std::string name = entry.path().filename();
    unsigned long long space = 0, process = 0, start = 0;
    if (std::sscanf(name.c_str(), "%llu-%llu-%llu-", &space, &process, &start) == 3 &&
        std::to_string(space) == process_namespace() &&
        process_stat(static_cast<pid_t>(process)).start != start)
      unlinkat(folder_.number(), name.c_str(), 0);
  }
}

}  // namespace ringrad
