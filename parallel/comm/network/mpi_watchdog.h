// MpiWatchdog: a deadline for calls of MPI that wait for other ranks and cannot be interrupted,
// such as MPI_Init.
//
//     rank 0   [ MPI_Init .... waits .... ] deadline: "no sign of life from rank 1", and it exits
//     rank 1   [ MPI_Init ... (stopped)
//     rank 2   [ MPI_Init .... waits .... ] likewise
//
// MPI can neither give up such a call nor tell which ranks are missing. So a thread watches the
// call, and at the deadline ends the process: mpirun then ends the job, or mpi_launcher.h does.
// While a rank is in the call its thread signs a roll again and again: a file per rank in the
// folder that mpirun makes for the job on each host and removes after it. A rank without a file has
// not made the call; one whose signature is old died or was stopped. Each host has its own roll. A
// rank that finds all ranks of its host on it reports that none of them is missing. One rank per
// host reports: the others would say the same.

#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "ringrad/parallel/comm/common/descriptor.h"

namespace ringrad {

/// One rank's place on the roll of a call.
class Roll {
 public:
  using Clock = std::chrono::steady_clock;  ///< the same for all processes of a host

  /// This rank's entry in the roll of its host for `call`. Without a folder, ranks cannot see each
  /// other's entries.
  Roll(std::string folder, const std::string& call, int rank);

  /// Signs the roll: this rank is alive and inside the call. Thread-safe.
  void sign() const { write(Clock::now().time_since_epoch()); }
  /// Signs off: this rank has returned, and the others no longer count it as missing.
  void sign_off() const { write(std::chrono::nanoseconds::max()); }

  /// The missing ranks: "no call from rank 2", "no sign of life from rank 1, which died or was
  /// stopped", both, or empty if all `local_world_size` ranks of this host have signed within
  /// `age`.
  std::string missing(int world_size, int local_world_size, std::chrono::nanoseconds age) const;

  /// True for the first rank of this host that asks, and for every rank without a roll.
  bool is_first_to_report() const;

 private:
  void write(std::chrono::nanoseconds time) const;
  std::string path(int rank) const;

  const std::string folder_, call_;
  const Descriptor file_;
};

/// Watches one call, from its construction to its destruction.
class MpiWatchdog {
 public:
  /// Ends the process with exit code 1 if the call has not returned after `limit`, or up to a
  /// second later. The first such rank of a host writes a line to stderr. Calls at_end() before the
  /// end.
  MpiWatchdog(std::string call, std::chrono::nanoseconds limit, std::function<void()> at_end);
  ~MpiWatchdog();
  MpiWatchdog(const MpiWatchdog&) = delete;
  MpiWatchdog& operator=(const MpiWatchdog&) = delete;

 private:
  void watch();
  bool returns_within(std::chrono::nanoseconds time);
  [[noreturn]] void end_process(const std::string& missing);

  const std::string call_;
  const std::chrono::nanoseconds limit_;
  const std::function<void()> at_end_;
  const Roll roll_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_returned_ = false;
  std::thread thread_;
};

}  // namespace ringrad
