// AgentLink: one host of a job, as the launcher sees it.

#pragma once

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "ringrad/parallel/comm/common/hosts.h"
#include "ringrad/parallel/comm/common/running_time.h"
#include "ringrad/parallel/comm/job/agent.h"
#include "ringrad/parallel/comm/job/child_process.h"
#include "ringrad/parallel/comm/job/line_reader.h"
#include "ringrad/parallel/comm/job/message_stream.h"

namespace ringrad {

/// The launcher's side of an agent: a child of the launcher, which is the agent itself or the
/// remote shell that leads to it.
struct AgentProcess {
  pid_t process;
  MessageStream stream;
  Descriptor err;  ///< of the remote shell
};

/// Starts a host's agent: forks it if the host is here, else by `remote_shell HOST ringrun
/// --agent`.
///
/// Throws: Error if that cannot be started
AgentProcess start_agent(const Host& host, std::vector<std::string> remote_shell,
                         const std::string& ringrun, const struct sigaction& on_broken_pipe,
                         Where where);

class AgentLink {
 public:
  /// A host that is silent for `patience`, while this process listens, is lost. The agent of this
  /// host is a child whose end is noticed, so it is lost only if it is stopped for that long.
  /// Without `patience`, no host is lost for being silent.
  AgentLink(Host host, std::optional<std::chrono::milliseconds> patience, AgentProcess agent);

  const Host& host() const { return host_; }
  MessageStream& stream() { return stream_; }

  /// The agent has sent its version, which is this launcher's. From now on, longer messages are
  /// accepted.
  void greet();
  bool is_greeted() const { return is_greeted_; }

  /// Adds the descriptors that this link waits for; pass them to take() with their events.
  static constexpr std::size_t kNumWaited = 3;
  void add_waited(std::vector<pollfd>& waited) const;
  /// Returns the lines that the remote shell wrote to its stderr.
  std::vector<std::string> take(const pollfd* waited);

  /// The child behind the link has ended.
  void note_end(pid_t process, int status) {
    if (process == process_) status_ = status;
  }

  bool has_ended() const { return status_.has_value(); }
  /// True if the child behind the link has ended with a status other than 0, which an agent that
  /// has done its work returns.
  bool has_failed() const { return status_ && *status_ != 0; }

  /// Why the host is lost, if it is: its connection has ended, or it has been silent for too long.
  ///
  /// REQUIRES: this is called once per kListenTime or more often, if the machine permits
  std::optional<std::string> why_lost();
  /// The last lines that the remote shell wrote to its stderr.
  const std::deque<std::string>& last_errors() const { return last_errors_.lines(); }

  /// Kills the child behind the link, and closes the connection.
  void cut();

 private:
  bool is_stopped() const;

  Host host_;
  std::optional<std::chrono::milliseconds> patience_;
  pid_t process_;
  MessageStream stream_;
  LineReader err_;
  LastLines last_errors_;
  bool is_greeted_ = false;
  RunningTime silence_{kListenTime};  // before the greeting, any time
  std::optional<int> status_;         // of the child, once it has ended
  std::optional<RunningTime> closed_for_;
};

}  // namespace ringrad
