// The launcher: starts the ranks of a job as processes of one machine or several, and ends them
// together.
//
//     launch({.program = {"./train", "--epochs", "3"}, .num_ranks = 4});
//     launch({.program = {"./train"}, .hosts = parse_hosts("h1:2,h2:2")});
//
// Each rank finds its place in its environment (rank_environment.h) and the others in a store that
// the launcher serves. The launcher forwards the ranks' output line by line, prefixed by the rank.
// It never waits for the reader of its own output: once 64 MiB are unread, ranks that write wait.
//
// On each host an agent (agent.h) runs the ranks. On other hosts a remote shell starts the agent:
// any command that takes a host, a program and its arguments, and forwards stdin, stdout and
// stderr. There, ranks start in the folder of the same name, in the environment of that shell plus
// the variables RINGRAD_* of this process, which come by stdin. A host that cannot be reached,
// loses its connection, or is silent for too long counts as failed, as a rank does.
//
// The first rank that fails ends the job. The others get `grace` to end by themselves, as they do
// when their collectives fail, then SIGTERM, then SIGKILL. No process outlives the job: a rank's
// own children end with it, also if the launcher, an agent, or the connection between them ends.
// SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are forwarded to the ranks, unless they are ignored.
// Ranks read nothing from the terminal: their agent's session has none, so /dev/tty does not open.
//
// The launcher names the rank that failed first, which may not have ended first (job_record.h).
//
// README.md says more: "Restarts".

#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/hosts.h"

namespace ringrad {

struct LaunchOptions {
  std::vector<std::string> program;  ///< and its arguments
  int num_ranks = 1;                 ///< on this machine, if no hosts are listed
  std::vector<Host> hosts{};         ///< the first ranks are on the first host
  /// How often a failed job is restarted, with RINGRAD_RESTART_COUNT = 1, 2, ...
  int max_restarts = 0;
  /// Restarts use the remaining ranks, if there are at least this many; 0: always all ranks.
  int min_ranks = 0;
  std::chrono::milliseconds grace = std::chrono::seconds(5);
  int port = 0;          ///< of the store; 0 takes a free one
  std::string inject{};  ///< planned faults (fault_injection.h)
  /// On each host, pins every rank to its own equal share of the CPUs that the agent may use there.
  /// If there are fewer CPUs than ranks, no rank is pinned.
  bool pin = false;

  // For other hosts.
  std::vector<std::string> remote_shell{"ssh", "-o", "BatchMode=yes"};
  std::string ringrun = "ringrun";  ///< where the program is found on every host
  std::string master_addr{};        ///< where ranks find the store; empty: address_for(hosts)
  /// Where the store listens; empty: at master_addr. Ranks of this host get this address, from
  /// which the name of the store's Unix socket follows.
  std::string bind{};
  /// A host that is silent for so long is lost; by default, 10 s for other hosts. The agent of this
  /// host is a child whose end is noticed. By default it may be silent for ever, since it may wait
  /// for a processor; with a host_timeout, it is lost once it has been stopped for that long.
  std::optional<std::chrono::milliseconds> host_timeout{};

  /// Where the launcher writes a file per rank, rank_<r>.log, besides its own output
  /// (job_output.h); empty: nowhere.
  std::string log_folder{};
};

/// Runs the job and forwards its output to stdout and stderr. Lines of up to 16 MiB are forwarded
/// whole, longer ones in pieces, and text that follows a carriage return at once. The ranks' stdout
/// is a terminal (child_process.h); they get TERM=dumb if this process's stdout is not one. Does
/// not return before the output is written, unless a signal asks it to end.
///
/// At the end, reports on stderr which rank failed first and how, which rank reported it, and the
/// last output of both. Returns 0 on success. After a failure, returns the exit code of the rank
/// that failed first, or 128 + the signal that ended it; if that rank did not end by itself, the
/// code of the rank that blames it. Returns 128 + the signal if a signal to this process ended the
/// job. Returns 1 if a host failed, or if the job succeeded and some of its output could not be
/// written, as on a full disk. A reader that has gone is no error.
///
/// Children that the program already has go on, such as those of a shell that became it by `exec`.
/// A child that ends meanwhile is reaped.
///
/// REQUIRES: the caller is the program's only thread
///
/// Throws: ValueError unless there is a program, the number of ranks is in [1, kMaxRanks],
///         max_restarts >= 0, min_ranks is in [0, number of ranks], grace >= 0, host_timeout > 0,
///         `inject` is a plan for such a job, and the path `ringrun` is plain enough for a remote
///         shell; CollectiveError if the store cannot be served; Error if the program cannot be
///         started, or files cannot be made in log_folder
int launch(const LaunchOptions& options, Where where = Where::current());

}  // namespace ringrad
