// The launcher: starts the ranks of a job as processes of this machine, and ends them together.
//
//     launch({.program = {"./train", "--epochs", "3"}, .num_ranks = 4});
//
// Each rank finds its place in its environment (rank_environment.h) and the others in a store that the
// launcher serves. What ranks write is passed on line by line, each with its rank before it.
//
// The first rank that fails ends the job: the others get `grace` to end by themselves, as they do when their
// collectives fail, then SIGTERM, then SIGKILL. Nothing outlives the job: a rank's own children go with it. If the
// launcher itself is killed its ranks go as well, but what they have started may stay. SIGINT, SIGTERM, SIGHUP,
// SIGUSR1 and SIGUSR2 are passed on to the ranks, unless they are ignored. Ranks read nothing from the terminal.

#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "core/error.h"

namespace ringrad {

struct LaunchOptions {
  std::vector<std::string> program;  ///< and its arguments
  int num_ranks = 1;
  /// How often a job that failed is started anew, with RINGRAD_RESTART_COUNT = 1, 2, ...
  int max_restarts = 0;
  std::chrono::milliseconds grace = std::chrono::seconds(5);
  int port = 0;       ///< of the store; 0 takes a free one
  std::string chaos;  ///< planned faults (chaos.h)
};

/// Runs the job, passing on its output to stdout and stderr, lines of more than 64 KiB in pieces; says last, on
/// stderr, which rank failed first, how, and what it wrote last. Returns 0, or that rank's exit code, or 128 +
/// the signal that ended it, or that this process was sent.
///
/// REQUIRES: it is the program's main thread, and the program has no other children: they would be reaped
///
/// Throws: ValueError unless there is a program, num_ranks >= 1, max_restarts >= 0, and `chaos` is a plan for such
///         a job; CollectiveError if the
///         store cannot be served; Error if the program cannot be started
int launch(const LaunchOptions& options, Where where = Where::current());

}  // namespace ringrad
