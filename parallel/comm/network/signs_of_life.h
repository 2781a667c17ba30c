// SignsOfLife: which ranks of a group are alive, as far as the others can tell. The signs lie in
// the job's store.
//
//     <group>/process<r>  r's process (process_state.h): ranks of its machine see whether it ended
//     <group>/dead<r>     a rank of that machine has seen it end
//     <group>/beat<r>     a number that r's thread raises from time to time
//
// A rank is lost if its process has ended, or if its beat stands still for GroupOptions::silence.
// The watching rank counts only time during which it was itself running (running_time.h), so a rank
// that waits for a processor is not considered dead. Not thread-safe.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "ringrad/parallel/comm/common/running_time.h"
#include "ringrad/parallel/comm/store/store.h"

namespace ringrad {

class SignsOfLife {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds kLook{100};  ///< between calls of give()

  SignsOfLife(std::string group, int rank, int world_size, std::chrono::nanoseconds silence);

  /// Publishes this rank's process. Throws: (as all below) CollectiveError if the store is gone
  void announce(Store& store, Where where);

  /// Shows that this rank is alive, if it is time to, and counts the time for which it watches
  /// others.
  void give(Store& store);

  /// Begins to watch the others, unless this rank already does.
  void watch(Store& store);
  void stop_watching() { watched_.clear(); }

  /// True if the rank's process has ended, as far as this machine knows.
  bool has_ended(int rank, Store& store);
  /// Tells ranks on other machines which processes of this one have ended.
  void report_deaths(Store& store);

  /// REQUIRES: this rank watches the others
  bool is_lost(int rank, Store& store);

 private:
  // A rank's beat when this rank began to watch it, or last saw it change.
  struct Watched {
    std::string beat;
    RunningTime since;
  };

  std::string place(const char* name, int rank) const { return concat(group_, '/', name, rank); }
  std::string beat_of(int rank, Store& store) const;

  const std::string group_;
  const int rank_, world_size_;
  const std::chrono::nanoseconds silence_;
  std::uint64_t num_beats_ = 0;
  Clock::time_point next_beat_{};
  std::vector<Watched> watched_;        // (world_size), or empty
  std::vector<std::string> processes_;  // (world_size) cards, "" if not yet read
};

}  // namespace ringrad
