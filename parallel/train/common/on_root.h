// Waits for work that may take longer than the group's deadline: rank 0's work alone (on_root), or
// every rank's own (await_all).
//
//     rank 0   [ ......... body() ......... ]                    a thread of rank 0 answers for it
//                  |        |         |       | done
//     others   wait-+-------+---------+-------+-> go on           one small all_reduce every second
//
// No rank waits in a collective for much longer than a second, so the group's deadline only has to
// be longer than that. In the first second of the work, ranks meet every 50 ms. A rank that dies is
// noticed as in any collective. The work has a deadline of its own, default 30 minutes.

#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/comm/same_text.h"

namespace ringrad {

/// Deadline of work that other ranks wait for.
constexpr std::chrono::nanoseconds kWorkDeadline = std::chrono::minutes(30);

/// Returns on all ranks once `is_done` has returned true on every rank. `is_done` is called
/// repeatedly, and may itself wait for up to the time it is given. All ranks must call await_all.
///
/// Throws: CollectiveError on all ranks if that takes longer than the deadline; the group is then
///         broken. The message begins with `what` and names the ranks that are not done
void await_all(const std::string& what,
               const std::function<bool(std::chrono::nanoseconds)>& is_done, Communicator& comm,
               std::chrono::nanoseconds deadline, Where where);

/// Answers the other ranks, on a thread of its own, while this rank is at work.
class AnswerWhileAtWork {
 public:
  AnswerWhileAtWork(const std::string& what, Communicator& comm, std::chrono::nanoseconds deadline,
                    Where where);
  /// Announces that the work is done, and waits until all ranks know.
  ~AnswerWhileAtWork() { end(); }
  AnswerWhileAtWork(const AnswerWhileAtWork&) = delete;
  AnswerWhileAtWork& operator=(const AnswerWhileAtWork&) = delete;

  /// Does the same as the destructor, but throws as await_all does.
  void finish();

 private:
  void end() noexcept;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_done_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

/// Calls body() on rank 0. If it throws, all ranks throw an ErrorType whose message begins with
/// "rank 0: ". The body must not use `comm`.
///
/// Throws: CollectiveError if it takes longer than the deadline: on rank 0 after body() has ended,
///         on the other ranks at once
template <class ErrorType, class Body>
void on_root(Communicator& comm, Where where, Body body,
             std::chrono::nanoseconds deadline = kWorkDeadline) {
  std::string error;
  bool is_answered = false;
  if (comm.rank() == 0) {
    std::optional<AnswerWhileAtWork> answer;
    try {
      answer.emplace("rank 0's work", comm, deadline, where);
      body();
    } catch (const Error& caught) {
      error = caught.message();
    } catch (const std::exception& caught) {
      error = caught.what();
    }
    if (answer) answer->finish();
    is_answered = answer.has_value();
  }
  if (!is_answered)
    await_all(
        "rank 0's work", [](auto) { return true; }, comm, deadline, where);
  error = text_of_root(error, comm, where);
  if (!error.empty()) throw ErrorType("rank 0: " + error, where);
}

}  // namespace ringrad
