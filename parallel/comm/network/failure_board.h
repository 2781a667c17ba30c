// FailureBoard: how the ranks of a group over a foreign library learn of a failure, and agree on
// the culprit.
//
// Such a library tells a rank at most that a call failed. The ranks find out the rest on a board in
// the job's store. A thread of each rank looks at it ten times a second, also while the rank
// computes:
//
//     rank 0   a call fails: alarm ....... 1 and 3 have answered, 2 has not: "rank 2 ..."
//     rank 1   waits in a call ... answers ................ its call is interrupted, throws that
//     rank 2   (dead)
//     rank 3   computes .......... answers ................ its next call throws that
//
//     <group>/alarm      the rank that noticed; it judges
//     <group>/rank<r>    what r answers: how many calls it has entered, or that it has left
//     <group>/failure    the judgement; the first one holds for all ranks
//     <group>/waits<r>   the collective in which r has waited for a while
//     <group>/here<r>, <group>/survivors    ranks that want to continue, and those that do
//
// A rank that does not answer is lost if its process has ended or it gives no sign of life
// (signs_of_life.h). The ranks begin to watch each other some time before a deadline, so a stopped
// rank is named soon after it. A rank that has answered, or that lives and has not been silent for
// `silence`, counts at most as late, never as lost.
//
// If the store is gone as well, each rank reports that and judges for itself (judge_without_store).
// While no call fails, the loss of the store has no effect.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ringrad/parallel/comm/common/collective_call.h"
#include "ringrad/parallel/comm/common/own_process.h"
#include "ringrad/parallel/comm/group_options.h"
#include "ringrad/parallel/comm/network/signs_of_life.h"
#include "ringrad/parallel/comm/store/store.h"

namespace ringrad {

struct Failure {
  int culprit = -1;       ///< -1: no rank is known to be at fault
  std::vector<int> lost;  ///< ranks that gave no sign of life
  std::string text;
};

class FailureBoard {
 public:
  using Clock = std::chrono::steady_clock;

  /// `store` is the board's own connection. Joining may take as long as its timeouts allow; later
  /// answers must come within a share of verdict_time.
  ///
  /// `interrupt` makes this rank's current call, if any, throw soon. `tend`, if not empty, is
  /// called every 20 ms of a call, while the store answers at once, and may do the same. Another
  /// thread calls both, and they must not throw.
  FailureBoard(Store store, std::string group, int rank, int world_size,
               const GroupOptions& options, std::function<void()> interrupt,
               std::function<void()> tend, Where where);
  /// This rank leaves the group. Does nothing in a forked child.
  ~FailureBoard();
  FailureBoard(const FailureBoard&) = delete;
  FailureBoard& operator=(const FailureBoard&) = delete;

  /// True once the group has failed, as far as this rank knows.
  const std::atomic<bool>& broken() const { return broken_; }
  /// REQUIRES: broken()
  Failure failure() const;
  /// -1 while the group is whole; then the culprit, or this rank if the culprit is unknown.
  int failed_rank() const {
    if (!broken()) return -1;
    const int culprit = failure().culprit;
    return culprit < 0 ? rank_ : culprit;
  }

  /// This rank enters a call, and leaves it. begin_call() returns the time when the call must end.
  /// If `operation` is given, the board compares the call with those of the other ranks.
  Clock::time_point begin_call(bool is_collective, const Operation* operation = nullptr);
  void end_call();

  /// Breaks the group by a failure of this rank, unless it is broken already. Thread-safe.
  void fail(const std::string& text) noexcept { fail({rank_, {}, text}); }

  // The following end this rank's current call.

  /// Throws: CollectiveError if the group is broken
  void check_whole(const Operation& operation) const {
    if (broken_.load(std::memory_order_acquire)) [[unlikely]]
      throw_broken(operation);
  }
  /// Breaks the group and throws CollectiveError with `text`, which starts with the operation. The
  /// failure is that of `culprit`, which may be kNobody.
  [[noreturn]] void fail_and_throw(const Operation& operation, int culprit,
                                   const std::string& text);
  /// After the transport failed with `got`: finds out together with the other ranks which rank
  /// failed, breaks the group, and throws CollectiveError. Takes at most verdict_time if the
  /// deadline has passed, otherwise at most `silence`.
  [[noreturn]] void investigate(const Operation& operation, const std::string& got);

  /// After a failure: the ranks that have called this, ascending, the same on all of them
  /// (survivors.h). Returns when all ranks that live and have not left have called it, or the
  /// deadline has passed.
  ///
  /// Throws: CollectiveError if the others decided without this rank, or the store is gone
  std::vector<int> agree_on_survivors(Where where);

 private:
  // The answer of a rank that has left the group.
  static constexpr const char* kLeft = "left";
  // The end of the answer of one whose call has met its deadline.
  static constexpr std::string_view kLate = " late";
  // The other ranks leave the judge a start of 1 / kJudgeShare of GroupOptions::verdict_time. By
  // four fifths of it the judge has heard everybody.
  static constexpr int kJudgeShare = 10;

  struct Answers;
  struct Wait;

  void watch();
  bool look();
  std::string place(const char* name) const { return group_ + '/' + name; }
  std::string place(const char* name, int rank) const { return concat(place(name), rank); }
  void watch_others();
  void answer();
  void testify();
  // A rank that has waited for a message for a while looks whether its sender waits in a collective
  // that this rank has not entered. Then neither can go on, and the group fails at once.
  std::optional<Failure> compare_waits();
  std::string to_text(const Wait& wait) const;
  std::optional<Wait> find_wait(int rank);
  std::optional<Failure> judge_waits(const Operation& operation, const Wait& of_peer, bool is_time);
  void collect(Answers& answers);
  Failure judge(const Operation& operation, const Answers& answers, bool late,
                const std::string& got) const;
  Failure find_out(const Operation& operation, bool late, const std::string& got);
  // Where ringrun serves the store, no rank is known to be to blame for its loss. Under other
  // launchers rank 0 serves it, and is to blame unless the board has heard of another failure
  // before, after which rank 0 may have ended in good order.
  Failure judge_without_store(const Operation& operation, const std::string& got,
                              const std::string& error);
  static std::string to_text(const Failure& failure);
  Failure parse_failure(const std::string& text) const;
  void fail(Failure failure) noexcept;
  void record(const Failure& failure);
  [[noreturn]] void throw_broken(const Operation& operation) const;

  const std::string group_;
  const int rank_, world_size_;
  const RankNames names_;
  const std::chrono::nanoseconds deadline_, silence_, verdict_time_;
  const std::function<void()> interrupt_, tend_;
  std::atomic<bool> broken_{false};

  mutable std::mutex mutex_;  // never waits for the store
  const OwnedByProcess<std::condition_variable> changed_;
  bool ending_ = false;
  bool in_call_ = false, interrupted_ = false;
  bool late_ = false;  // a call has met its deadline
  Clock::time_point call_deadline_{};
  std::uint64_t num_calls_ = 0, num_collectives_ = 0;  // that this rank has entered
  std::optional<Operation> operation_;                 // of the current call, if it is known
  bool is_collective_ = false;
  Clock::time_point call_began_{};
  std::vector<std::uint64_t> num_sent_, num_received_;  // (world_size) messages
  Failure failure_;
  Clock::time_point alarm_heard_{};

  std::mutex store_mutex_;  // guards what follows
  Store store_;
  SignsOfLife signs_;
  bool has_answered_ = false, has_testified_ = false;
  std::uint64_t watched_call_ = 0, shown_call_ = 0, mixed_call_ = 0;
  Clock::time_point mixed_since_{};  // when the mixed call was found to be one
  Clock::time_point silent_at_{};    // when this rank found the store unreachable, and
  std::string silence_of_store_;     // the error it got

  OwnedByProcess<std::thread> thread_;
  const OwnProcess in_own_process_;
};

}  // namespace ringrad
