// The agent: runs the ranks of one host for a launcher, which may be on another.
//
//     launcher  --pipe or remote shell-->  agent  -->  ranks
//               job, signals               |  starts them, passes on what they write, says how they end,
//               <------------------------- |  and ends all of them when the launcher is gone
//
// The launcher forks the agent of its own host. On another host the remote shell starts `ringrun --agent`, with
// the launcher at the other end of its stdin and stdout. The job comes through stdin, its token too: nothing that is
// secret is in an argument. When stdin closes, or is silent for too long, the agent kills its ranks, their
// children, and what has left them, and ends.
//
// An agent has a parent that inherits what it leaves: the launcher, or a second process on the other host. If
// either is killed, the other one ends the ranks.

#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "parallel/comm/descriptor.h"

namespace ringrad {

/// What launcher and agent must agree on.
inline constexpr const char* kAgentVersion = "ringrad agent 4";

struct AgentJob {
  std::vector<std::string> program;      ///< and its arguments
  std::vector<std::string> variables{};  ///< NAME=VALUE, for the environment of every rank
  std::string folder{};                  ///< where ranks start
  int first_rank = 0, num_ranks = 1;     ///< of this host
  bool pin = false;                      ///< each to its share of the CPUs, if there are enough
  /// After how long a silent launcher is taken for lost; 0 for never.
  std::chrono::milliseconds patience{};

  std::string text() const;
  /// Throws: Error unless `text` is what text() returns for a job with a program and ranks
  static AgentJob parse(std::string_view text, Where where);
  bool operator==(const AgentJob&) const = default;
};

/// Forks an agent that hears the launcher in `in` and answers to `out`. It leaves when `in` closes, or when this
/// process ends. Ranks treat broken pipes as told.
pid_t fork_agent(const Descriptor& in, const Descriptor& out,
                 const struct sigaction& on_broken_pipe, Where where = Where::current());

/// `ringrun --agent`: an agent at this process's stdin and stdout. Returns when it has ended, an exit code.
///
/// REQUIRES: as launch()
int run_agent(Where where = Where::current());

}  // namespace ringrad
