#include "ringrad/parallel/comm/network/mpi_watchdog.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/rank_names.h"
#include "ringrad/parallel/comm/network/mpi_launcher.h"
#include "ringrad/parallel/comm/store/rank_environment.h"

namespace ringrad {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr int kExitCode = 1;

// A rank that has not signed for so long gives no sign of life. Its thread signs four times as
// often, so that it is not taken for dead on a machine with much to do.
nanoseconds longest_silence(nanoseconds limit) {
  return std::clamp<nanoseconds>(limit / 10, milliseconds(200), milliseconds(800));
}

// The folder of this job on this host, if its launcher has made one.
std::string job_folder() {
  const char* folder = std::getenv("PMIX_SERVER_TMPDIR");
  return folder ? folder : "";
}

// A launcher may have several jobs in one folder.
std::string name_in_folder(const std::string& call) {
  const char* job = std::getenv("PMIX_NAMESPACE");
  std::string name = concat("ringrad-", job ? job : "", '-', call);
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

}  // namespace

// --- Roll ---

Roll::Roll(std::string folder, const std::string& call, int rank)
    : folder_(std::move(folder)),
      call_(call),
      file_(folder_.empty() ? -1
                            : open(path(rank).c_str(),
                                   O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600)) {
  sign();
}

std::string Roll::path(int rank) const { return concat(folder_, '/', call_, '-', rank); }

// In one piece: a reader sees the time before or this one.
void Roll::write(nanoseconds time) const {
  if (!file_.is_open()) return;
  const std::int64_t count = time.count();
  // A disk that is full makes this rank look silent, which only an error's text depends on.
  [[maybe_unused]] const ssize_t written = pwrite(file_.number(), &count, sizeof count, 0);
}

std::string Roll::missing(int world_size, int local_world_size, nanoseconds age) const {
  if (!file_.is_open()) return {};
  const auto now = Clock::now().time_since_epoch();
  const RankNames names;
  std::vector<int> absent, silent;
  for (int rank = 0; rank < world_size; ++rank) {
    const Descriptor file(open(path(rank).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    std::int64_t signed_at = 0;
    if (!file.is_open())
      absent.push_back(rank);
    else if (pread(file.number(), &signed_at, sizeof signed_at, 0) == sizeof signed_at &&
             nanoseconds(signed_at) < now - age)
      silent.push_back(rank);
  }
  std::string text;
  if (!silent.empty())
    text = concat("no sign of life from ", names.list(silent), ", which died or ",
                  silent.size() == 1 ? "was" : "were", " stopped");
  const int num_absent = local_world_size - (world_size - static_cast<int>(absent.size()));
  if (num_absent <= 0) return text;
  text += text.empty() ? "" : ", and ";
  // Which of the ranks without a file belong to this host is known if all do.
  return text + (local_world_size == world_size ? concat("no call from ", names.list(absent))
                                                : concat("no call from ", num_absent, " of the ",
                                                         local_world_size, " ranks of this host"));
}

bool Roll::is_first_to_report() const {
  if (!file_.is_open()) return true;
  const std::string report = concat(folder_, '/', call_, "-report");
  const Descriptor own(
      open(report.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
  return own.is_open() || errno != EEXIST;
}

// --- MpiWatchdog ---

MpiWatchdog::MpiWatchdog(std::string call, nanoseconds limit, std::function<void()> at_end)
    : call_(std::move(call)),
      limit_(limit),
      at_end_(std::move(at_end)),
      roll_(job_folder(), name_in_folder(call_), rank_environment().rank),
      thread_([this] { watch(); }) {}

MpiWatchdog::~MpiWatchdog() {
  {
    const std::lock_guard lock(mutex_);
    has_returned_ = true;
  }
  changed_.notify_all();
  thread_.join();
  roll_.sign_off();
}

bool MpiWatchdog::returns_within(nanoseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return has_returned_; });
}

void MpiWatchdog::watch() {
  const auto begin = Roll::Clock::now();
  const nanoseconds silence = longest_silence(limit_);
  const RankEnvironment job = rank_environment();
  const auto missing = [&] { return roll_.missing(job.world_size, job.local_world_size, silence); };
  const auto sign_until = [&](nanoseconds end) {
    for (nanoseconds left; (left = end - (Roll::Clock::now() - begin)).count() > 0;) {
      roll_.sign();
      if (returns_within(std::min(left, silence / 4))) return true;
    }
    return false;
  };
  if (sign_until(limit_)) return;
  std::string who = missing();
  if (!who.empty()) end_process(who);
  if (sign_until(limit_ + silence)) return;  // a rank stopped a moment ago is not silent yet
  who = missing();
  end_process(who.empty()
                  ? "all ranks of this host in the call: one of another host must be missing"
                  : who);
}

// exit() would run what MPI does at the end of a process, while MPI is in the call.
void MpiWatchdog::end_process(const std::string& missing) {
  const std::string line = concat("ringrad: rank ", rank_environment().rank, ": mpi group: ", call_,
                                  " must return on every rank within ",
                                  duration<double>(limit_).count(), " s; got ", missing, '\n');
  if (roll_.is_first_to_report()) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  }
  at_end_();
  watch_launcher();
  _exit(kExitCode);
}

}  // namespace ringrad
