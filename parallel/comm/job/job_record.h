// JobRecord: what the launcher knows of the ranks of one run, and which rank's failure ended it.
//
//     first exit: rank 0, code 3       rank 0 blames rank 2        rank 2 is stopped
//     headline:   "rank 2 failed first: still running, blamed by rank 0 (exit code 3)"
//
// The rank that notices a failure often ends before the rank that caused it. So the record starts
// at the first rank that ended with a failure and follows the ranks' reports of whom they blame
// (culprit_report.h). It stops at a rank that has reported nothing or blames itself, or at a lost
// host. In programs that report nothing, each rank thus counts as its own culprit: the first
// failure counts, or one by a signal that follows at once. A rank may also report kNobody: it does
// not know the culprit. Then a lost host counts, or the first failure of a rank that knows a
// culprit. Without either, the next run leaves no rank out.

#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "ringrad/parallel/comm/common/hosts.h"
#include "ringrad/parallel/comm/job/line_reader.h"

namespace ringrad {

class JobRecord {
 public:
  using Clock = std::chrono::steady_clock;

  /// One run on these hosts; the first ranks are on the first.
  explicit JobRecord(std::vector<Host> hosts);

  int num_ranks() const { return static_cast<int>(ranks_.size()); }
  int num_running() const;
  int first_rank(std::size_t host) const;
  bool is_rank_of(std::size_t host, int rank) const;
  /// What stands before the rank's lines: "[2] ", or "[2@h1] " if a host has a name.
  std::string prefix(int rank) const;

  /// A rank has written a line to stderr.
  void add_error(int rank, const std::string& line) { at(rank).errors.add(line); }
  /// A rank has reported which rank it blames, or kNobody.
  void note_blame(int rank, int culprit);
  void note_end(int rank, int status, Clock::time_point now = Clock::now());
  /// A host is lost, and its ranks with it. The report shows `last_lines` of it.
  void note_lost(std::size_t host, const std::string& why,
                 const std::deque<std::string>& last_lines, Clock::time_point now = Clock::now());

  /// The launcher calls this before it kills the ranks. Later exits are not failures; a host that
  /// is lost later is only left out of the next run.
  void close() { is_closed_ = true; }

  /// When the first failure came, if one has come.
  std::optional<Clock::time_point> failed_at() const;
  /// 0 without a failure, and 1 if a host failed. Otherwise the exit code of the culprit, or 128 +
  /// the signal that ended it. If the culprit is unknown or did not fail by itself, that of the
  /// rank that noticed the failure.
  int exit_code() const;
  /// "rank 1 failed first: exit code 7", and below it what the culprit and the rank that blames it
  /// wrote last. Empty without a failure.
  std::string report() const;
  /// The hosts for the next run: without the culprit, ranks that were killed, and lost hosts.
  std::vector<Host> hosts_left() const;

 private:
  struct Rank {
    std::size_t host;
    bool is_running = true;
    std::optional<int> status{};  // if it has ended by itself
    Clock::time_point ended_at{};
    std::optional<int> blames{};
    LastLines errors{};
  };
  struct LostHost {
    std::string why;
    std::deque<std::string> last_lines;
    bool in_time = true;  // before close()
  };
  // What was noticed first: the end of a rank, or the loss of a host.
  struct First {
    bool is_host;
    int number;
    Clock::time_point at;
  };
  struct Verdict;

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const Rank& at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  bool ended_by_signal(int rank) const;
  bool has_failed(int rank) const;
  bool was_killed(int rank) const;
  std::optional<std::size_t> host_lost_in_time() const;
  std::optional<int> first_that_knows_a_culprit() const;
  int culprit_of(int rank) const;
  Verdict verdict() const;
  bool is_one_host() const { return hosts_.size() == 1 && hosts_[0].is_here(); }
  std::string name_of(int rank) const;

  const std::vector<Host> hosts_;
  std::vector<Rank> ranks_;                    // (world_size)
  std::vector<std::optional<LostHost>> lost_;  // (number of hosts)
  std::optional<First> first_;
  bool is_closed_ = false;
};

}  // namespace ringrad
