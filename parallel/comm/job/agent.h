// The agent: runs the ranks of one host for a launcher, which may be on another.
//
//     launcher  --pipe or remote shell-->  agent  -->  ranks
//               job, signals               |  starts them, forwards their output, reports how they
//               <------------------------- |  end, and ends all of them when the launcher is gone
//
// The launcher forks the agent of its own host. On another host the remote shell starts `ringrun
// --agent`, with the launcher at the other end of its stdin and stdout. The job and its token come
// through stdin, so no argument holds a secret. When stdin closes, or is silent for too long, the
// agent kills its ranks, their children and their orphans, and ends.
//
// An agent's parent, which is the launcher or, on another host, a second process there, adopts the
// agent's orphans. If the agent or its parent is killed, the other one ends the ranks.

#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/descriptor.h"

namespace ringrad {

/// The version of the messages, which must be the same in launcher and agent.
inline constexpr const char* kAgentVersion = "ringrad agent 5";

struct AgentJob {
  std::vector<std::string> program;      ///< and its arguments
  std::vector<std::string> variables{};  ///< NAME=VALUE, for the environment of every rank
  std::string folder{};                  ///< where ranks start
  int first_rank = 0, num_ranks = 1;     ///< of this host
  bool pin = false;                      ///< each to its share of the CPUs, if there are enough
  /// How long the launcher may be silent before it counts as lost; 0: forever.
  std::chrono::milliseconds patience{};

  std::string text() const;
  /// Throws: Error unless `text` is what text() returns for a job with a program and ranks
  static AgentJob parse(std::string_view text, Where where);
  bool operator==(const AgentJob&) const = default;
};

/// Forks an agent that reads the launcher's messages from `in` and answers to `out`. It ends when
/// `in` closes, or when this process ends. Ranks handle SIGPIPE by `on_broken_pipe`.
pid_t fork_agent(const Descriptor& in, const Descriptor& out,
                 const struct sigaction& on_broken_pipe, Where where = Where::current());

/// `ringrun --agent`: an agent at this process's stdin and stdout. Returns its exit code when it
/// has ended.
///
/// REQUIRES: as launch()
int run_agent(Where where = Where::current());

}  // namespace ringrad
