#include "ringrad/parallel/comm/common/process_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/common/hosts.h"

namespace ringrad {
namespace {

constexpr char kGone = 0, kUnknown = '?';

struct Stat {
  char state = kUnknown;
  unsigned long long start = 0;  // in ticks since the machine started
};

// Of /proc/<number>/stat: "12 (name) S ...", where a name may hold anything. Takes no memory:
// callers may have none.
Stat stat_of(pid_t number) {
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", static_cast<int>(number));
  const Descriptor file(open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return {errno == ENOENT ? kGone : kUnknown, 0};
  std::array<char, 1024> text{};
  if (read(file.number(), text.data(), text.size() - 1) <= 0)
    return {errno == ESRCH ? kGone : kUnknown, 0};
  const char* field = std::strrchr(text.data(), ')');
  if (field == nullptr || field[1] != ' ') return {};
  field += 2;
  Stat stat;
  stat.state = *field;
  constexpr int kFieldsToStart = 19;  // from the state, which is the third, to the 22nd
  for (int i = 0; i < kFieldsToStart && field != nullptr; ++i) {
    field = std::strchr(field, ' ');
    if (field != nullptr) ++field;
  }
  if (field == nullptr) return {};
  stat.start = std::strtoull(field, nullptr, 10);
  return stat;
}

bool is_end(char state) { return state == kGone || state == 'Z' || state == 'X'; }

const std::string& own_place() {
  static const std::string place = [] {
    std::error_code unknown;
    return process_place(boot_id(),
                         std::filesystem::read_symlink("/proc/self/ns/pid", unknown).string());
  }();
  return place;
}

}  // namespace

ProcessState process_state(pid_t number) noexcept {
  const char state = stat_of(number).state;
  if (is_end(state)) return ProcessState::ended;
  if (state == 't') return ProcessState::traced;
  return state == 'T' ? ProcessState::stopped : ProcessState::running;
}

std::string process_place(const std::string& boot, const std::string& process_namespace) {
  return boot.empty() || process_namespace.empty() ? "" : boot + ' ' + process_namespace;
}

std::string own_process_card() {
  return own_place() + ' ' + std::to_string(getpid()) + ' ' +
         std::to_string(stat_of(getpid()).start);
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
  const Stat now = stat_of(number);
  return is_end(now.state) || (now.state != kUnknown && now.start != start);
}

}  // namespace ringrad
