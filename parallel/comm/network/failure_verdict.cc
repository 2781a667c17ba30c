// How the ranks of a FailureBoard find out which of them failed, and which of them continue.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <sstream>

#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/parallel/comm/common/culprit_report.h"
#include "ringrad/parallel/comm/common/running_time.h"
#include "ringrad/parallel/comm/network/failure_board.h"
#include "ringrad/parallel/comm/store/store_protocol.h"

namespace ringrad {
namespace {

constexpr auto kPause = std::chrono::milliseconds(10);

}  // namespace

// What the ranks have answered so far, "" for nothing.
struct FailureBoard::Answers {
  std::vector<std::string> of_rank;  // (world_size)
  std::vector<int> lost;             // ascending

  explicit Answers(int world_size) : of_rank(static_cast<std::size_t>(world_size)) {}

  // The ranks whose answer is such.
  template <class Condition>
  std::vector<int> ranks(Condition is_such) const {
    std::vector<int> found;
    for (std::size_t r = 0; r < of_rank.size(); ++r)
      if (is_such(of_rank[r])) found.push_back(static_cast<int>(r));
    return found;
  }
  bool complete() const {
    return ranks([](const auto& answer) { return answer.empty(); }).size() == lost.size();
  }
};

void FailureBoard::collect(Answers& answers) {
  answers.lost.clear();
  for (int r = 0; r < world_size_; ++r) {
    std::string& of_rank = answers.of_rank[static_cast<std::size_t>(r)];
    if (of_rank.empty()) of_rank = store_.find(place("rank", r)).value_or("");
    if (of_rank.empty() && signs_.is_lost(r, store_)) answers.lost.push_back(r);
  }
}

Failure FailureBoard::judge(const Operation& operation, const Answers& answers, bool late,
                            const std::string& got) const {
  const double deadline_s = std::chrono::duration<double>(deadline_).count();
  if (const std::vector<int>& lost = answers.lost; !lost.empty())
    return {lost[0], lost,
            concat(operation, ": every rank must take part; got no sign of life from ",
                   names_.list(lost), ", which died or was stopped")};
  const auto left = answers.ranks([](const std::string& answer) { return answer == kLeft; });
  if (!left.empty())
    return {left[0], left,
            concat(operation, ": every rank must take part; got ", names_.list(left),
                   ", which has left the group")};
  const auto unreadable = answers.ranks(
      [](const std::string& answer) { return !answer.empty() && !parse_number(answer); });
  if (!unreadable.empty())
    return {unreadable[0],
            {},
            concat(operation, ": rank ", names_(unreadable[0]),
                   " must tell how many calls it has entered; got ",
                   quoted_bytes(answers.of_rank[static_cast<std::size_t>(unreadable[0])]))};
  const CollectiveOp op = operation.call.op;
  const int peer = operation.call.peer;
  const auto late_peer = [&](const char* must, const char* got_instead) {
    return Failure{peer,
                   {},
                   concat(operation, ": rank ", names_(peer), " must ", must, " within ",
                          deadline_s, " s; got ", got_instead)};
  };
  if (late && op == CollectiveOp::recv) return late_peer("send", "no message");
  if (late && op == CollectiveOp::send)
    return late_peer("receive", "messages that it has not taken");
  const auto absent = answers.ranks([&](const std::string& answer) {
    return parse_number(answer).value_or(0) < static_cast<std::int64_t>(operation.sequence);
  });
  if (late && !absent.empty())
    return {absent[0],
            {},
            concat(operation, ": every rank must arrive within ", deadline_s,
                   " s; got no call from ", names_.list(absent))};
  const std::string must = late ? concat("every rank must finish within ", deadline_s, " s")
                                : "the connections must hold";
  return {kNobody, {}, concat(operation, ": ", must, "; got ", got)};
}

// The judgement that stands, maybe by this rank.
Failure FailureBoard::find_out(const Operation& operation, bool late, const std::string& got) {
  const auto begin = Clock::now();
  const std::lock_guard lock(store_mutex_);
  // What did not answer the thread that looks, while this one waited for it, would cost as much
  // time again.
  if (silent_at_ >= begin) throw CollectiveError(silence_of_store_, operation.where);
  const std::string own = std::to_string(rank_);
  const bool judges = store_.set_first(place("alarm"), own) == own;
  answer();
  signs_.watch(store_);
  // After the deadline little time is left for answers. Before it, this rank waits until every
  // other rank has answered or is lost. The judge may die too, so the others judge a little later.
  const auto start = begin + (judges ? Clock::duration() : verdict_time_ / kJudgeShare);
  const auto end = begin + verdict_time_ * 4 / 5;
  Answers answers(world_size_);
  for (;;) {
    if (const auto failure = store_.find(place("failure"))) return parse_failure(*failure);
    if (Clock::now() >= start) {
      const bool is_time = late && Clock::now() >= end;
      collect(answers);
      if (is_time || answers.complete()) {
        const Failure failure = judge(operation, answers, late, got);
        return parse_failure(store_.set_first(place("failure"), to_text(failure)));
      }
    }
    std::this_thread::sleep_for(kPause);
  }
}

Failure FailureBoard::judge_without_store(const Operation& operation, const std::string& got,
                                          const std::string& error) {
  const std::lock_guard lock(store_mutex_);
  const auto server = store_.server_rank();
  if (!server || has_answered_)
    return {kNobody,
            {},
            concat(operation, ": the ranks must find out who failed; got ", got,
                   ", and then: ", error)};
  int culprit = kNobody;  // where the rank is in another group
  for (int r = 0; r < world_size_; ++r)
    if (names_(r) == *server && r != rank_) culprit = r;
  return {culprit, culprit == kNobody ? std::vector<int>() : std::vector<int>{culprit},
          concat(operation, ": every rank must take part; got no answer from rank ", *server,
                 ", whose process serves the store and therefore died or was stopped (", got, "; ",
                 error, ')')};
}

void FailureBoard::investigate(const Operation& operation, const std::string& got) {
  bool late = false;
  {
    const std::lock_guard lock(mutex_);
    in_call_ = false;
    late = Clock::now() >= call_deadline_;
  }
  if (!broken_.load(std::memory_order_acquire)) {
    try {
      record(find_out(operation, late, got));
    } catch (const CollectiveError& error) {
      record(judge_without_store(operation, got, std::string(error.message())));
    }
  }
  const Failure failure = this->failure();
  // A judgement of this rank speaks of this operation.
  if (failure.text.starts_with(concat(operation, ": ")))
    throw CollectiveError(failure.text, operation.where);
  throw_broken(operation);
}

// The first rank that writes down which ranks it has seen decides.
std::vector<int> FailureBoard::agree_on_survivors(Where where) {
  const auto begin = Clock::now();
  const std::lock_guard lock(store_mutex_);
  store_.set(place("here", rank_), "", where);
  const std::vector<int> lost = failure().lost;
  std::vector<bool> here(static_cast<std::size_t>(world_size_), false);
  RunningTime waited(kPause);
  // A rank that lives has answered the alarm, or soon does.
  const auto is_awaited = [&](int r) {
    if (std::find(lost.begin(), lost.end(), r) != lost.end() || signs_.has_ended(r, store_))
      return false;
    const auto answer = store_.find(place("rank", r), where);
    return answer ? *answer != kLeft : waited.advance() < silence_;
  };
  for (bool complete = false; !complete;) {
    complete = true;
    for (int r = 0; r < world_size_; ++r) {
      here[r] = here[r] || store_.find(place("here", r), where);
      complete = complete && (here[r] || !is_awaited(r));
    }
    if (Clock::now() - begin >= deadline_ || store_.find(place("survivors"), where)) break;
    if (!complete) std::this_thread::sleep_for(kPause);
  }
  std::ostringstream seen;
  for (int r = 0; r < world_size_; ++r)
    if (here[r]) seen << r << ' ';
  std::istringstream decision(store_.set_first(place("survivors"), std::move(seen).str(), where));
  const std::vector<int> survivors(std::istream_iterator<int>(decision), {});
  RINGRAD_CHECK(std::all_of(survivors.begin(), survivors.end(),
                            [&](int r) { return r >= 0 && r < world_size_; }),
                CollectiveError, where,
                "shrink: the store must hold the list of survivors; got malformed bytes");
  RINGRAD_CHECK(std::find(survivors.begin(), survivors.end(), rank_) != survivors.end(),
                CollectiveError, where, "shrink: ranks must come within ",
                std::chrono::duration<double>(deadline_).count(), " s; rank ", names_(rank_),
                " was late, and the others have gone on");
  retract_report();
  return survivors;
}

}  // namespace ringrad
