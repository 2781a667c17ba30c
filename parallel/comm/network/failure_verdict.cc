// How the ranks of a FailureBoard find out which of them failed, and which of them continue.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <locale>
#include <optional>
#include <sstream>
#include <utility>

#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/parallel/comm/common/culprit_report.h"
#include "ringrad/parallel/comm/common/running_time.h"
#include "ringrad/parallel/comm/network/failure_board.h"
#include "ringrad/parallel/comm/store/store_protocol.h"

namespace ringrad {
namespace {

constexpr auto kPause = std::chrono::milliseconds(10);

// How long a rank waits before it shows in which call, and how long a rank that has found a
// mismatch waits for what the others show: the majority tells which call is the odd one.
constexpr auto kCompareAfter = std::chrono::milliseconds(500);
constexpr auto kMajorityAfter = std::chrono::seconds(5);

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
  bool has_late() const {
    return !ranks([](const auto& answer) { return answer.ends_with(kLate); }).empty();
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
  // The collectives that a rank has entered; none if its answer is unreadable.
  const auto num_entered = [](std::string_view answer) {
    if (answer.ends_with(kLate)) answer.remove_suffix(kLate.size());
    return parse_number(answer);
  };
  const double deadline_s = std::chrono::duration<double>(deadline_).count();
  if (const std::vector<int>& lost = answers.lost; !lost.empty())
    return {lost[0], lost,
            concat(operation, ": every rank must take part; got no sign of life from ",
                   names_.list(lost), ", which died or was stopped")};
  const CollectiveOp op = operation.call.op;
  const int peer = operation.call.peer;
  const bool is_collective = op != CollectiveOp::recv && op != CollectiveOp::send;
  auto left = answers.ranks([](const std::string& answer) { return answer == kLeft; });
  if (!is_collective) std::erase_if(left, [&](int rank) { return rank != peer; });
  if (!left.empty())
    return {left[0], left,
            concat(operation, ": every rank must take part; got ", names_.list(left),
                   ", which has left the group")};
  const auto unreadable = answers.ranks([&](const std::string& answer) {
    return !answer.empty() && answer != kLeft && !num_entered(answer);
  });
  if (!unreadable.empty())
    return {unreadable[0],
            {},
            concat(operation, ": rank ", names_(unreadable[0]),
                   " must tell how many calls it has entered; got ",
                   quoted_bytes(answers.of_rank[static_cast<std::size_t>(unreadable[0])]))};
  const auto late_peer = [&](const char* must, const char* got_instead) {
    return Failure{peer,
                   {},
                   concat(operation, ": rank ", names_(peer), " must ", must, " within ",
                          deadline_s, " s; got ", got_instead)};
  };
  if (late && op == CollectiveOp::recv) return late_peer("send", "no message");
  if (late && op == CollectiveOp::send)
    return late_peer("receive", "messages that it has not taken");
  const auto sequence = static_cast<std::int64_t>(operation.sequence);
  const auto absent = answers.ranks(
      [&](const std::string& answer) { return num_entered(answer).value_or(0) < sequence; });
  // A rank that meets its deadline first ends the connections of others, which are not late yet.
  const auto late_here = answers.ranks([&](const std::string& answer) {
    return answer.ends_with(kLate) && num_entered(answer) == sequence;
  });
  if ((late || (is_collective && !late_here.empty())) && !absent.empty())
    return {absent[0],
            {},
            concat(operation, ": every rank must arrive within ", deadline_s,
                   " s; got no call from ", names_.list(absent))};
  const std::string must = late || answers.has_late()
                               ? concat("every rank must finish within ", deadline_s, " s")
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
      const bool is_end = Clock::now() >= end;
      collect(answers);
      // A rank whose deadline has passed knows for whom it has waited.
      const bool leaves_it_to_others = !late && answers.has_late() && !is_end;
      if ((late && is_end) || (answers.complete() && !leaves_it_to_others)) {
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
  return {
      culprit, culprit == kNobody ? std::vector<int>() : std::vector<int>{culprit},
      concat(operation, ": every rank must take part; got no answer from rank ", *server,
             ", whose process serves the store: it died, was stopped, or is too busy to answer (",
             got, "; ", error, ')')};
}

void FailureBoard::investigate(const Operation& operation, const std::string& got) {
  bool late = false;
  {
    const std::lock_guard lock(mutex_);
    late = late_ = in_call_ && Clock::now() >= call_deadline_;  // else it failed between two calls
    in_call_ = false;
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

// --- Different calls ---

// How a rank waits in a collective.
struct FailureBoard::Wait {
  std::uint64_t num_collectives = 0;  // that it has entered, this one included
  CollectiveCall call;
  std::vector<std::uint64_t> num_sent;  // (world_size) messages, to each rank
};

std::string FailureBoard::to_text(const Wait& wait) const {
  const CollectiveCall& call = wait.call;
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << wait.num_collectives << ' ' << static_cast<int>(call.op) << ' '
      << static_cast<int>(call.dtype) << ' ' << static_cast<int>(call.reduce) << ' '
      << static_cast<int>(call.device) << ' ' << call.peer << ' ' << call.count;
  for (const std::uint64_t messages : wait.num_sent) out << ' ' << messages;
  return std::move(out).str();
}

// None if the rank has shown none, or the store holds something else.
std::optional<FailureBoard::Wait> FailureBoard::find_wait(int rank) {
  const auto text = store_.find(place("waits", rank));
  if (!text) return {};
  Wait wait;
  int op = 0, dtype = 0, reduce = 0, device = 0, peer = 0;
  std::istringstream words(*text);
  words.imbue(std::locale::classic());
  words >> wait.num_collectives >> op >> dtype >> reduce >> device >> peer >> wait.call.count;
  for (std::uint64_t messages = 0; words >> messages;) wait.num_sent.push_back(messages);
  const auto is_one_of = [](int number, auto last) {
    return number >= 0 && number <= static_cast<int>(last);
  };
  if (wait.num_sent.size() != static_cast<std::size_t>(world_size_) || peer < 0 ||
      peer >= world_size_ || !is_one_of(op, CollectiveOp::links) ||
      !is_one_of(dtype, kNumDTypes - 1) || !is_one_of(reduce, ReduceOp::max) ||
      !is_one_of(device, DeviceType::cuda))
    return {};
  wait.call.op = static_cast<CollectiveOp>(op);
  wait.call.dtype = static_cast<DType>(dtype);
  wait.call.reduce = static_cast<ReduceOp>(reduce);
  wait.call.device = static_cast<DeviceType>(device);
  wait.call.peer = static_cast<std::int16_t>(peer);
  return wait;
}

// With store_mutex_ held. A rank shows its wait in a collective; one that waits for a message looks
// at its sender's. A sender that is in a later collective, and had sent no message before, sends
// none until this rank is there too. So an old entry of the sender says nothing: this rank has been
// in that collective.
std::optional<Failure> FailureBoard::compare_waits() {
  std::optional<Operation> operation;
  Wait own;
  std::uint64_t call_number = 0, num_received = 0;
  bool is_collective = false;
  {
    const std::lock_guard lock(mutex_);
    if (!in_call_ || !operation_ || Clock::now() - call_began_ < kCompareAfter) return {};
    operation = operation_;
    is_collective = is_collective_;
    call_number = num_calls_;
    own = {num_collectives_, operation_->call, num_sent_};
    if (operation_->call.op == CollectiveOp::recv)
      num_received = num_received_[static_cast<std::size_t>(operation_->call.peer)];
  }
  if (is_collective) {
    if (std::exchange(shown_call_, call_number) != call_number)
      store_.set(place("waits", rank_), to_text(own));
    return {};
  }
  if (operation->call.op != CollectiveOp::recv) return {};
  const std::optional<Wait> of_peer = find_wait(operation->call.peer);
  if (!of_peer || of_peer->num_collectives <= own.num_collectives ||
      of_peer->num_sent[static_cast<std::size_t>(rank_)] > num_received)
    return {};
  if (std::exchange(mixed_call_, call_number) != call_number) mixed_since_ = Clock::now();
  return judge_waits(*operation, *of_peer, Clock::now() - mixed_since_ >= kMajorityAfter);
}

// None while ranks that have shown nothing yet may do so.
std::optional<Failure> FailureBoard::judge_waits(const Operation& operation, const Wait& of_peer,
                                                 bool is_time) {
  std::vector<int> ranks;
  std::vector<CollectiveCall> calls;
  for (int r = 0; r < world_size_; ++r) {
    const auto wait = r == rank_ ? std::nullopt : find_wait(r);
    if (r != rank_ && (!wait || wait->num_collectives != of_peer.num_collectives)) continue;
    ranks.push_back(r);
    calls.push_back(r == rank_ ? operation.call : wait->call);
  }
  if (!is_time && ranks.size() < static_cast<std::size_t>(world_size_)) return {};
  return Failure{odd_one_out(calls, world_size_, ranks),
                 {},
                 concat(operation, ": all ranks must make the same call; got ",
                        list_calls(calls, names_, ranks))};
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
  std::string seen;
  for (int r = 0; r < world_size_; ++r)
    if (here[r]) seen += concat(r, ' ');
  std::istringstream decision(store_.set_first(place("survivors"), seen, where));
  decision.imbue(std::locale::classic());
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
