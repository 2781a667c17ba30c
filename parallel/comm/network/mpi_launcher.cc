#include "ringrad/parallel/comm/network/mpi_launcher.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <locale>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/common/process_state.h"

namespace ringrad {
namespace {

constexpr std::string_view kLaunchers[] = {"mpirun",  "mpiexec", "orterun", "orted",  // OpenMPI 4
                                           "prterun", "prted",   "prte"};             // 5
constexpr const char* kOwnName = "ringrad-watch";
constexpr auto kTick = std::chrono::milliseconds(20);
constexpr int kMostAncestors = 16;  // shells and the like between mpirun and a rank

struct Process {
  pid_t id = 0;
  unsigned long long start = 0;  // id and start together belong to no other process

  bool operator==(const Process&) const = default;
};

std::optional<Process> launcher_of_this_process() {
  pid_t id = getppid();
  for (int i = 0; id > 0 && i < kMostAncestors; ++i) {
    const ProcessStat stat = process_stat(id);
    if (std::ranges::find(kLaunchers, std::string_view(stat.name.data())) != std::end(kLaunchers))
      return Process{id, stat.start};
    id = stat.parent;
  }
  return {};
}

// Those that are alive, without watching processes, which the launcher may have adopted. None if
// the system does not say, or the launcher has gone.
std::optional<std::vector<Process>> children_of(const Process& launcher) {
  std::optional<std::vector<Process>> children;
  std::error_code gone;
  std::filesystem::directory_iterator thread("/proc/" + std::to_string(launcher.id) + "/task",
                                             gone);
  for (; thread != std::filesystem::directory_iterator(); thread.increment(gone)) {
    std::ifstream ids(thread->path() / "children");
    ids.imbue(std::locale::classic());
    if (!ids) continue;
    if (!children) children.emplace();
    for (pid_t id = 0; ids >> id;) {
      const ProcessStat stat = process_stat(id);
      if (stat.parent == launcher.id && !stat.has_ended() &&
          std::string_view(stat.name.data()) != kOwnName)
        children->push_back({id, stat.start});
    }
  }
  return children;
}

void kill_those_alive(const std::vector<Process>& processes) {
  for (const Process& process : processes)
    if (const ProcessStat now = process_stat(process.id);
        now.start == process.start && !now.has_ended())
      kill(process.id, SIGKILL);
}

// `handle` is readable once the launcher has ended. Ticks are counted, not time: on a starved
// machine the launcher may need longer.
void watch(const Process& launcher, int handle, std::chrono::milliseconds patience,
           std::vector<Process> ranks) {
  std::chrono::milliseconds without_ranks{};
  pollfd end{handle, POLLIN, 0};
  for (;;) {
    const int num_ready = poll(&end, 1, static_cast<int>(kTick.count()));
    if (num_ready > 0) break;
    if (num_ready < 0 && errno == EINTR) continue;  // a signal that the rank's program handles
    if (num_ready < 0) return;
    auto now = children_of(launcher);
    if (!now) continue;
    without_ranks = now->empty() ? without_ranks + kTick : std::chrono::milliseconds(0);
    for (Process& rank : *now)  // a list that is read while a process ends may lack others
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end())
        ranks.push_back(std::move(rank));
    if (without_ranks > patience) kill_those_alive({launcher});
  }
  kill_those_alive(ranks);
}

// Readable once the process has ended.
Descriptor handle_of(const Process& process) {
  return Descriptor(static_cast<int>(syscall(SYS_pidfd_open, process.id, 0)));
}

}  // namespace

void end_with_launcher(std::function<void()> at_end) {
  const auto launcher = launcher_of_this_process();
  if (!launcher) return;
  Descriptor handle = handle_of(*launcher);
  if (!handle.is_open()) return;
  std::thread([handle = std::move(handle), at_end = std::move(at_end)] {
    pollfd end{handle.number(), POLLIN, 0};
    while (poll(&end, 1, -1) < 0 && errno == EINTR) {
    }
    if ((end.revents & POLLIN) == 0) return;  // the handle was closed; POLLHUP may come with it
    at_end();
    kill(getpid(), SIGKILL);
  }).detach();
}

// The process is the launcher's no longer, and holds none of the rank's files: mpirun waits until
// all ends of the ranks' pipes are closed.
void watch_launcher(std::chrono::milliseconds patience) {
  const auto launcher = launcher_of_this_process();
  if (!launcher) return;
  const Descriptor handle = handle_of(*launcher);
  if (!handle.is_open()) return;
  std::vector<Process> ranks = children_of(*launcher).value_or(std::vector<Process>());
  std::erase_if(ranks, [](const Process& process) { return process.id == getpid(); });
  const pid_t child = fork();
  if (child > 0) waitpid(child, nullptr, 0);
  if (child != 0) return;
  if (fork() == 0) {
    setsid();
    prctl(PR_SET_NAME, kOwnName);
    constexpr int kHandle = 0;
    if (dup2(handle.number(), kHandle) == kHandle && syscall(SYS_close_range, 1, ~0U, 0) == 0)
      watch(*launcher, kHandle, patience, std::move(ranks));
  }
  _exit(0);
}

}  // namespace ringrad
