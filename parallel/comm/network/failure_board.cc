#include "ringrad/parallel/comm/network/failure_board.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/parallel/comm/common/culprit_report.h"
#include "ringrad/parallel/comm/common/running_time.h"
#include "ringrad/parallel/comm/store/store_protocol.h"

namespace ringrad {
namespace {

constexpr auto kTick = std::chrono::milliseconds(20);  // how exactly a deadline is kept
constexpr auto kLook = SignsOfLife::kLook;             // between looks at the board
constexpr auto kLookAgain = std::chrono::seconds(1);   // where the store did not answer
constexpr auto kPause = std::chrono::milliseconds(10);

// Shares of GroupOptions::verdict_time: a store that lives answers by 1 / kStoreShare of it, and
// the other ranks leave the judge a start of 1 / kJudgeShare. By four fifths of it the judge has
// heard everybody.
constexpr int kStoreShare = 2, kJudgeShare = 10;

constexpr const char* kLeft = "left";

std::string to_text(const Failure& failure) {
  std::ostringstream out;
  out << failure.culprit << ' ' << failure.lost.size();
  for (const int rank : failure.lost) out << ' ' << rank;
  out << ' ' << failure.text;
  return std::move(out).str();
}

}  // namespace

FailureBoard::FailureBoard(Store store, std::string group, int rank, int world_size,
                           const GroupOptions& options, std::function<void()> interrupt,
                           Where where)
    : group_(std::move(group)),
      rank_(rank),
      world_size_(world_size),
      names_(options.rank_names),
      deadline_(options.deadline),
      silence_(longest_silence(options)),
      verdict_time_(options.verdict_time),
      interrupt_(std::move(interrupt)),
      store_(std::move(store)),
      signs_(group_, rank, world_size, silence_) {
  signs_.announce(store_, where);
  store_.answer_within(std::chrono::ceil<std::chrono::milliseconds>(verdict_time_ / kStoreShare));
  thread_ = std::thread([this] { watch(); });
}

FailureBoard::~FailureBoard() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  try {
    store_.set(place("rank", rank_), kLeft);
  } catch (const CollectiveError&) {  // the store is gone, and so are its readers
  }
}

// --- Calls ---

FailureBoard::Clock::time_point FailureBoard::begin_call(bool is_collective) {
  const auto now = Clock::now();
  const auto longest = Clock::time_point::max() - now;  // a longer deadline would overflow
  const std::lock_guard lock(mutex_);
  in_call_ = true;
  ++num_calls_;
  if (is_collective) ++num_collectives_;
  return call_deadline_ = now + std::min<Clock::duration>(deadline_, longest);
}

void FailureBoard::end_call() {
  bool was_interrupted = false;
  {
    const std::lock_guard lock(mutex_);
    in_call_ = false;
    was_interrupted = interrupted_;
  }
  // It came to its end all the same, but what it used has been told to stop.
  if (was_interrupted && !broken()) fail("its call ended only when the deadline passed");
}

// --- The thread that looks ---

void FailureBoard::watch() {
  auto next_look = Clock::now();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kTick, [&] { return ending_ || broken_; })) {
    if (in_call_ && !interrupted_ && Clock::now() >= call_deadline_) {
      interrupted_ = true;
      interrupt_();
    }
    if (Clock::now() < next_look) continue;
    lock.unlock();
    const bool seen = look();
    lock.lock();
    next_look = Clock::now() + (seen ? std::chrono::milliseconds(kLook) : kLookAgain);
  }
}

// False if the store does not answer.
bool FailureBoard::look() {
  std::optional<std::string> failure;
  {
    const std::lock_guard lock(store_mutex_);
    try {
      signs_.give(store_);
      watch_others();
      if (!store_.find(place("alarm"))) return true;
      answer();
      failure = store_.find(place("failure"));
      if (!failure) testify();
    } catch (const CollectiveError& error) {
      silence_of_store_ = error.message();
      silent_at_ = Clock::now();
      return false;
    }
  }
  if (failure) record(parse_failure(*failure));
  return true;
}

// All below is called with store_mutex_ held.

// A call that still waits when its deadline is no more than `silence` away, and did so at the look
// before this one.
void FailureBoard::watch_others() {
  std::uint64_t call = 0;
  bool waits = false;
  {
    const std::lock_guard lock(mutex_);
    call = num_calls_;
    waits = in_call_ && Clock::now() >= call_deadline_ - silence_ - 2 * kLook;
  }
  if (call != watched_call_) signs_.stop_watching();
  if (waits && call == std::exchange(watched_call_, call)) signs_.watch(store_);
}

// For a judge on another machine.
void FailureBoard::testify() {
  Clock::time_point heard;
  {
    const std::lock_guard lock(mutex_);
    heard = alarm_heard_;
  }
  if (has_testified_ || Clock::now() - heard < verdict_time_ / kJudgeShare) return;
  has_testified_ = true;
  signs_.report_deaths(store_);
}

// --- Failure ---

// With store_mutex_ held.
void FailureBoard::answer() {
  if (std::exchange(has_answered_, true)) return;
  std::uint64_t num_collectives = 0;
  {
    const std::lock_guard lock(mutex_);
    num_collectives = num_collectives_;
    alarm_heard_ = Clock::now();
  }
  store_.set(place("rank", rank_), std::to_string(num_collectives));
}

Failure FailureBoard::parse_failure(const std::string& text) const {
  Failure failure;
  std::size_t num_lost = 0;
  std::istringstream words(text);
  words >> failure.culprit >> num_lost;
  for (int rank = 0; num_lost > 0 && words >> rank; --num_lost) failure.lost.push_back(rank);
  words.get();
  if (!words || failure.culprit < kNobody || failure.culprit >= world_size_)
    return {kNobody, {}, concat("the store must hold a failure; got ", quoted_bytes(text))};
  failure.text = std::string(std::istreambuf_iterator<char>(words), {});
  return failure;
}

void FailureBoard::record(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (broken_.load(std::memory_order_relaxed)) return;
  failure_ = failure;
  broken_.store(true, std::memory_order_release);
  report_culprit(names_(failure.culprit));  // kNobody too: it stays kNobody
  changed_.notify_all();
  if (in_call_ && !std::exchange(interrupted_, true)) interrupt_();
}

Failure FailureBoard::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void FailureBoard::fail(const std::string& text) noexcept {
  if (broken_.load(std::memory_order_acquire)) return;
  Failure failure{rank_, {}, text};
  try {
    const std::lock_guard lock(store_mutex_);
    store_.set_first(place("alarm"), std::to_string(rank_));
    answer();  // the survivors wait for this rank's answer
    failure = parse_failure(store_.set_first(place("failure"), to_text(failure)));
  } catch (const std::exception&) {  // then this rank alone knows
  }
  record(failure);
}

void FailureBoard::fail_and_throw(const Operation& operation, const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    in_call_ = false;  // nothing is left to interrupt
  }
  fail(text);
  throw CollectiveError(text, operation.where);
}

void FailureBoard::throw_broken(const Operation& operation) const {
  const Failure failure = this->failure();
  const int culprit = names_(failure.culprit);
  throw CollectiveError(
      concat(operation, ": the group must be whole; got a failure of ",
             culprit < 0 ? "an unknown rank" : concat("rank ", culprit), ": ", failure.text),
      operation.where);
}

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
      const std::string text = concat(operation, ": the ranks must find out who failed; got ", got,
                                      ", and then: ", error.message());
      record({kNobody, {}, text});
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
