// Processes that the launcher and its agents start, and how they are ended.

#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "parallel/comm/descriptor.h"

namespace ringrad {

/// While it lives these signals are read instead of delivered, and SIGCHLD with them; except those that the process
/// ignores, as under nohup. SIGPIPE is ignored meanwhile: writing to a process that has ended fails with EPIPE.
class SignalReader {
 public:
  /// Throws: Error without a descriptor to read from
  explicit SignalReader(const std::vector<int>& signals, Where where = Where::current());
  ~SignalReader();
  SignalReader(const SignalReader&) = delete;
  SignalReader& operator=(const SignalReader&) = delete;

  int number() const { return file_.number(); }
  /// The next one. REQUIRES: there is one
  int take() const;

  /// What was done about a broken pipe when it was made.
  const struct sigaction& on_broken_pipe() const { return on_broken_pipe_; }

 private:
  void restore() const;

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
  int report = -1;                       ///< what it finds at kReportDescriptor; -1 for nothing
  struct sigaction on_broken_pipe {
  };  ///< how SIGPIPE is handled: the caller may ignore it, while a program expects the system's way
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

/// A child that has ended and is not reaped yet, if there is one. With `waits`, blocks until a child ends or there
/// is none. Until it is reaped, the system gives its number to no other process or group, so signals sent to either
/// hit nobody else.
std::optional<pid_t> find_ended_child(bool waits);

/// Reaps such a child; returns its status as waitpid() does.
int reap_child(pid_t process);

/// "exit code 3", "killed by signal 9 (Killed)".
std::string text_of_status(int status);

/// Kills what a child has left in its process group, then reaps it; returns its status.
///
/// REQUIRES: find_ended_child() returned it, and the child led a process group of its own
int reap_group(pid_t leader);

/// Kills all children of this process, and those they leave to it, until there are none; calls ended(process,
/// status) for each.
template <class Ended>
void end_children(Ended ended);

// Implementation details follow.

void kill_children();

template <class Ended>
void end_children(Ended ended) {
  for (;;) {
    kill_children();
    const auto process = find_ended_child(true);
    if (!process) return;
    ended(*process, reap_group(*process));
  }
}

}  // namespace ringrad
