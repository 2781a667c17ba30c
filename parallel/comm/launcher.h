// The launcher: starts the ranks of a job as processes of one machine or several, and ends them together.
//
//     launch({.program = {"./train", "--epochs", "3"}, .num_ranks = 4});
//     launch({.program = {"./train"}, .hosts = parse_hosts("h1:2,h2:2")});
//
// Each rank finds its place in its environment (rank_environment.h) and the others in a store that the
// launcher serves. What ranks write is passed on line by line, each with its rank before it.
//
// On each host an agent (agent.h) runs the ranks. On other hosts a remote shell starts it: any command that takes
// a host, a program and its arguments, and passes on stdin, stdout and stderr. There, ranks start in the folder of
// the same name, in the environment that the shell gives with the variables RINGRAD_* of this process. A host
// that cannot be reached, whose connection ends, or that is silent for too long has failed, as a rank does.
//
// The first rank that fails ends the job: the others get `grace` to end by themselves, as they do when their
// collectives fail, then SIGTERM, then SIGKILL. Nothing outlives the job: a rank's own children go with it, also
// if the launcher, an agent, or the connection between them ends. SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are
// passed on to the ranks, unless they are ignored. Ranks read nothing from the terminal.
//
// The launcher names the rank that failed first, which may not be the one that ended first (job_record.h).
//
// A job that failed may be started anew, on as many ranks or on those that are left: all but the rank that failed
// first, those that somebody has killed, and those of all hosts that were lost. Ranks are counted anew, without gaps.

#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "core/error.h"
#include "parallel/comm/hosts.h"

namespace ringrad {

struct LaunchOptions {
  std::vector<std::string> program;  ///< and its arguments
  int num_ranks = 1;                 ///< where no hosts are listed: on this machine
  std::vector<Host> hosts{};         ///< the first ranks are on the first
  /// How often a job that failed is started anew, with RINGRAD_RESTART_COUNT = 1, 2, ...
  int max_restarts = 0;
  /// Restarts are on as many ranks as are left, if these are at least so many; 0: always on all.
  int min_ranks = 0;
  std::chrono::milliseconds grace = std::chrono::seconds(5);
  int port = 0;         ///< of the store; 0 takes a free one
  std::string chaos{};  ///< planned faults (chaos.h)
  /// On each host, every rank keeps to its share of the CPUs that the launcher's agent may use there: as many for
  /// each, none for two. Where there are fewer CPUs than ranks, all run where they like.
  bool pin = false;

  // For hosts elsewhere.
  std::vector<std::string> remote_shell{"ssh", "-o", "BatchMode=yes"};
  std::string ringrun = "ringrun";  ///< where the program is found on every host
  std::string master_addr{};        ///< where ranks find the store; empty: address_for(hosts)
  std::string bind{};               ///< where the store listens; empty: at master_addr
  std::chrono::milliseconds host_timeout =
      std::chrono::seconds(10);  ///< silence that means a host is lost
};

/// Runs the job, passing on its output to stdout and stderr, lines of more than 64 KiB in pieces; says last, on
/// stderr, which rank failed first, how, which rank says so, and what both wrote last. Returns 0, or that rank's exit
/// code, or 128 + the signal that ended it, or that this process was sent; the code of the rank that blames it if it
/// did not end itself; 1 if a host failed.
///
/// REQUIRES: it is the program's main thread, there are no others, and the program has no other children: they
///           would be killed
///
/// Throws: ValueError unless there is a program, the number of ranks is in [1, kMaxRanks], max_restarts >= 0, min_ranks
///         is in [0, number of ranks], grace >= 0, host_timeout > 0, `chaos` is a plan for such a job, and the path
///         `ringrun` is plain enough for a remote shell; CollectiveError if the store cannot be served; Error if the
///         program cannot be started
int launch(const LaunchOptions& options, Where where = Where::current());

}  // namespace ringrad
