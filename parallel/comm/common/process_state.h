// What the system says about a process of this machine.

#pragma once

#include <sys/types.h>

#include <array>
#include <string>

namespace ringrad {

/// What /proc/<number>/stat says.
struct ProcessStat {
  char state = '?';              ///< 'R', 'S', 'T', ...; '?': unknown; 0: no process has the number
  pid_t parent = 0;              ///< 0: none, or unknown
  unsigned long long start = 0;  ///< in ticks since the machine started
  std::array<char, 64> name{};

  bool has_ended() const { return state == 0 || state == 'Z' || state == 'X'; }
};

/// Takes no memory: callers may have none.
ProcessStat process_stat(pid_t number) noexcept;

enum class ProcessState {
  running,  ///< or sleeping, or unknown
  stopped,  ///< by SIGSTOP
  traced,   ///< stopped by a debugger, which will let it go on
  ended,    ///< or no process has the number
};

ProcessState process_state(pid_t number) noexcept;

/// Names a set of processes that see each other under the same numbers: "<boot> <process
/// namespace>". Empty if an argument is empty because the system does not tell it: different
/// machines would then seem to be one.
std::string process_place(const std::string& boot, const std::string& process_namespace);

/// A process, in one word: "<boot> <process namespace> <number> <start>". The system reuses
/// numbers; a number together with the time of the process's start identifies it for good.
std::string own_process_card();

/// True if the card names a process that this one can see and that has ended. False for a process
/// of another machine or container, which this process cannot see, and for a text that is not a
/// card. `own_place` is this process's place; if it is empty, the result is false for every card.
bool has_ended(const std::string& process_card, const std::string& own_place);
bool has_ended(const std::string& process_card);

}  // namespace ringrad
