// The processes that the launcher and its agents start, and functions to end them.

#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/descriptor.h"

namespace ringrad {

/// While it lives, the given signals and SIGCHLD are read instead of delivered, except those that
/// the process ignores, as under nohup. SIGPIPE is ignored meanwhile, so writing to a process that
/// has ended fails with EPIPE.
class SignalReader {
 public:
  /// Throws: Error if the system gives no descriptor to read from
  explicit SignalReader(const std::vector<int>& signals, Where where = Where::current());
  ~SignalReader();
  SignalReader(const SignalReader&) = delete;
  SignalReader& operator=(const SignalReader&) = delete;

  int number() const { return file_.number(); }
  /// The next signal. REQUIRES: there is one
  int take() const;

  /// How SIGPIPE was handled before this object was made.
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
  Descriptor in;        // its stdin, if it reads
  Descriptor out, err;  // its stdout and stderr
};

struct ChildOptions {
  std::vector<std::string> program;      ///< and its arguments
  std::vector<std::string> environment;  ///< NAME=VALUE; all of it
  std::vector<int> cpus{};               ///< that it may run on; empty: those of this process
  bool reads = false;                    ///< from this process; otherwise its stdin ends at once
  /// Its stdout is a terminal, if the system has one left, so that most programs write each line as
  /// soon as it is complete. What they write arrives unchanged. It is not their controlling
  /// terminal.
  bool has_terminal = false;
  /// Its session is its own, so that no terminal controls it. Otherwise its session is that of this
  /// process, and the program may move to another process group.
  bool in_own_session = false;
  int report = -1;  ///< its descriptor kReportDescriptor; -1: none
  struct sigaction on_broken_pipe {
  };  ///< the child's handling of SIGPIPE, which the caller itself may ignore
};

/// Starts a program in a process group of its own. It is killed if this process ends.
///
/// Throws: Error if it cannot be started
ChildProcess start_child(const ChildOptions& options, Where where);

/// This process's environment, in which the variables in `own` replace those of the same name.
std::vector<std::string> environment_with(std::vector<std::string> own);

/// The CPUs that this process may run on, ascending.
std::vector<int> allowed_cpus();

/// From now on, this process adopts the orphans of its descendants. Children that it already has
/// are foreign: a shell that became this program by `exec` may have started them.
void inherit_orphans();

/// A child that has ended and is not reaped yet, if there is one. With `waits`, blocks until a
/// child ends or there is none. Until it is reaped, the system gives its number to no other process
/// or group, so signals to that number reach no other process.
std::optional<pid_t> find_ended_child(bool waits);

/// Reaps such a child; returns its status as waitpid() does.
int reap_child(pid_t process);

/// "exit code 3", "killed by signal 9 (Killed)".
std::string text_of_status(int status);

/// Kills the processes left in a child's process group, then reaps the child; returns its status.
///
/// REQUIRES: find_ended_child() returned it, and the child led a process group of its own
int reap_group(pid_t leader);

/// Kills all children of this process but foreign ones, and the orphans that it adopts from them,
/// until there are none. Calls ended(process, status) for each, and for a foreign one that has
/// ended.
void end_children(const std::function<void(pid_t process, int status)>& ended);

}  // namespace ringrad
