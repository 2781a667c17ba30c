// Processes that the launcher and its agents start, and how they are ended.

#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "parallel/comm/descriptor.h"

namespace ringrad {

/// Signals come as something to read while it lives; but for those that are ignored, as under nohup. SIGCHLD is
/// always among them.
class SignalReader {
 public:
  explicit SignalReader(const std::vector<int>& signals);
  ~SignalReader();
  SignalReader(const SignalReader&) = delete;
  SignalReader& operator=(const SignalReader&) = delete;

  int number() const { return file_.number(); }
  /// The next one. REQUIRES: there is one
  int take() const;

  /// What was done about a broken pipe when it was made.
  const struct sigaction& on_broken_pipe() const { return on_broken_pipe_; }

 private:
  sigset_t before_;
  struct sigaction on_child_before_ {
  }, on_broken_pipe_{};
  Descriptor file_;
};

struct ChildProcess {
  pid_t process = -1;
  Descriptor in;        // what it reads, if it reads anything
  Descriptor out, err;  // what it writes
};

struct ChildOptions {
  std::vector<std::string> program;      ///< and its arguments
  std::vector<std::string> environment;  ///< NAME=VALUE; all of it
  std::vector<int> cpus{};               ///< that it may run on; empty for those of this process
  bool reads = false;                    ///< from us; else it finds an end at once
  struct sigaction on_broken_pipe {
  };  ///< servers of ours ignore it: a program expects the system's way
};

/// Starts a program in a process group of its own, which is killed if this process ends.
///
/// Throws: Error if it cannot be started
ChildProcess start_child(const ChildOptions& options, Where where);

/// This process's environment, with `own` instead of what has the same names.
std::vector<std::string> environment_with(std::vector<std::string> own);

/// The CPUs that this process may run on, ascending.
std::vector<int> allowed_cpus();

/// From now on, what descendants of this process leave behind are its children.
void inherit_orphans();

/// Kills all children of this process, and those they leave to it, until there are none; calls ended(process,
/// status) for each.
template <class Ended>
void end_children(Ended ended);

// Implementation details follow.

void kill_children();
/// Waits for any child. False if there is none.
bool wait_for_child(pid_t& process, int& status);

template <class Ended>
void end_children(Ended ended) {
  pid_t process = 0;
  int status = 0;
  for (;;) {
    kill_children();
    if (!wait_for_child(process, status)) return;
    ended(process, status);
  }
}

}  // namespace ringrad
