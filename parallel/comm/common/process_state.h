// What the system says about a process of this machine.

#pragma once

#include <sys/types.h>

#include <string>

namespace ringrad {

enum class ProcessState {
  running,  ///< or sleeping, or unknown
  stopped,  ///< by SIGSTOP
  traced,   ///< stopped by a debugger, which will let it go on
  ended,    ///< or no process has the number
};

ProcessState process_state(pid_t number) noexcept;

/// Where processes see each other under the same numbers: "<boot> <process namespace>". Empty if
/// either is: the system does not tell, and different machines would seem to be one.
std::string process_place(const std::string& boot, const std::string& process_namespace);

/// A process, in one word: "<boot> <process namespace> <number> <start>". Numbers are used again;
/// with the time of its start one identifies one process for good.
std::string own_process_card();

/// True if the card is of a process that this one can see, and it has ended. False for one of
/// another machine or container, of which this process knows nothing, and for a text that is no
/// card. `own_place` is this process's place; where that is empty nothing is known of any process.
bool has_ended(const std::string& process_card, const std::string& own_place);
bool has_ended(const std::string& process_card);

}  // namespace ringrad
