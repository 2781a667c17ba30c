#include "ringrad/parallel/comm/common/process_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/common/hosts.h"

namespace ringrad {
namespace {

const std::string& own_place() {
  static const std::string place = [] {
    std::error_code unknown;
    return process_place(boot_id(),
                         std::filesystem::read_symlink("/proc/self/ns/pid", unknown).string());
  }();
  return place;
}

}  // namespace

// "12 (name) S 1 ...", where a name may hold anything.
ProcessStat process_stat(pid_t number) noexcept {
  constexpr char kGone = 0, kUnknown = '?';
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", static_cast<int>(number));
  const Descriptor file(open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return {.state = errno == ENOENT ? kGone : kUnknown};
  std::array<char, 1024> text{};
  if (read(file.number(), text.data(), text.size() - 1) <= 0)
    return {.state = errno == ESRCH ? kGone : kUnknown};
  const char* const name = std::strchr(text.data(), '(');
  const char* const end = std::strrchr(text.data(), ')');
  ProcessStat stat;
  // The state and the parent are fields 3 and 4, the start is field 22.
  if (name == nullptr || end <= name ||
      std::sscanf(
          end, ") %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
          &stat.state, &stat.parent, &stat.start) != 3)
    return {};
  const auto length = std::min<std::size_t>(stat.name.size() - 1, end - name - 1);
  std::copy_n(name + 1, length, stat.name.begin());
  return stat;
}

ProcessState process_state(pid_t number) noexcept {
  const ProcessStat stat = process_stat(number);
  if (stat.has_ended()) return ProcessState::ended;
  if (stat.state == 't') return ProcessState::traced;
  return stat.state == 'T' ? ProcessState::stopped : ProcessState::running;
}

std::string process_place(const std::string& boot, const std::string& process_namespace) {
  return boot.empty() || process_namespace.empty() ? "" : boot + ' ' + process_namespace;
}

std::string own_process_card() {
  return own_place() + ' ' + std::to_string(getpid()) + ' ' +
         std::to_string(process_stat(getpid()).start);
}

bool has_ended(const std::string& process_card) { return has_ended(process_card, own_place()); }

bool has_ended(const std::string& process_card, const std::string& own_place) {
  if (own_place.empty()) return false;
  const std::string place = own_place + ' ';
  int number = 0;
  unsigned long long start = 0;
  if (process_card.rfind(place, 0) != 0 ||
      std::sscanf(process_card.c_str() + place.size(), "%d %llu", &number, &start) != 2)
    return false;
  const ProcessStat now = process_stat(number);
  return now.has_ended() || (now.state != '?' && now.start != start);
}

}  // namespace ringrad
