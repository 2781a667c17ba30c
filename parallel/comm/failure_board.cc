#include "parallel/comm/failure_board.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

namespace ringrad {
namespace {

constexpr auto kTick = std::chrono::milliseconds(20);         // how exactly a deadline is kept
constexpr auto kLook = std::chrono::milliseconds(100);        // between looks at the board
constexpr auto kLookAgain = std::chrono::seconds(1);          // where the store did not answer
constexpr auto kStoreTime = std::chrono::milliseconds(500);   // a store that lives answers by then
constexpr auto kAnswerTime = std::chrono::milliseconds(700);  // so does a rank, after an alarm
constexpr auto kJudgeTime = std::chrono::milliseconds(150);   // and whoever judges is ready then
constexpr auto kPause = std::chrono::milliseconds(10);

constexpr const char* kLeft = "left";

std::string to_text(const Failure& failure) {
  std::ostringstream out;
  out << failure.culprit << ' ' << failure.lost.size();
  for (const int rank : failure.lost) out << ' ' << rank;
  out << ' ' << failure.text;
  return std::move(out).str();
}

Failure parse_failure(const std::string& text) {
  Failure failure;
  std::size_t num_lost = 0;
  std::istringstream words(text);
  words >> failure.culprit >> num_lost;
  for (int rank = 0; num_lost > 0 && words >> rank; --num_lost) failure.lost.push_back(rank);
  words.get();
  failure.text = std::string(std::istreambuf_iterator<char>(words), {});
  return failure;
}

}  // namespace

FailureBoard::FailureBoard(const Store& store, std::string group, int rank, int world_size,
                           std::chrono::nanoseconds deadline, std::function<void()> interrupt,
                           Where where)
    : group_(std::move(group)),
      rank_(rank),
      world_size_(world_size),
      deadline_(deadline),
      interrupt_(std::move(interrupt)),
      store_(store.another(kStoreTime, where)),
      thread_([this] { watch(); }) {}

FailureBoard::~FailureBoard() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  try {
    store_.set(place("rank", rank_), kLeft);
  } catch (const CollectiveError&) {  // nobody is there to be told
  }
}

// --- Calls -------------------------------------------------------------------------------------------

FailureBoard::Clock::time_point FailureBoard::begin_call(bool is_collective) {
  const auto now = Clock::now();
  const auto longest = Clock::time_point::max() - now;  // a longer deadline would overflow
  const std::lock_guard lock(mutex_);
  in_call_ = true;
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

// --- The thread that looks -----------------------------------------------------------------------------

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
      if (!store_.find(place("alarm"))) return true;
      answer();
      failure = store_.find(place("failure"));
    } catch (const CollectiveError& error) {
      silence_ = error.message();
      silent_at_ = Clock::now();
      return false;
    }
  }
  if (failure) record(parse_failure(*failure));
  return true;
}

// --- Failure -------------------------------------------------------------------------------------------

// REQUIRES: store_mutex_ is held
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

void FailureBoard::record(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (broken_.load(std::memory_order_relaxed)) return;
  failure_ = failure;
  broken_.store(true, std::memory_order_release);
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
    answer();  // those that go on wait for who lives
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
  throw CollectiveError(concat(operation, ": the group must be whole; got a failure of rank ",
                               failure.culprit, ": ", failure.text),
                        operation.where);
}

// What the ranks have answered so far, "" for nothing.
struct FailureBoard::Answers {
  std::vector<std::string> of_rank;  // (world_size)

  bool complete() const {
    return std::none_of(of_rank.begin(), of_rank.end(), [](const auto& a) { return a.empty(); });
  }
  // The ranks whose answer is such.
  template <class Condition>
  std::vector<int> ranks(Condition is_such) const {
    std::vector<int> found;
    for (std::size_t r = 0; r < of_rank.size(); ++r)
      if (is_such(of_rank[r])) found.push_back(static_cast<int>(r));
    return found;
  }
};

void FailureBoard::collect(Answers& answers) {
  for (int r = 0; r < world_size_; ++r) {
    std::string& of_rank = answers.of_rank[static_cast<std::size_t>(r)];
    if (of_rank.empty()) of_rank = store_.find(place("rank", r)).value_or("");
  }
}

Failure FailureBoard::judge(const Operation& operation, const Answers& answers, bool late,
                            const std::string& got) const {
  const double deadline_s = std::chrono::duration<double>(deadline_).count();
  const auto lost = answers.ranks([](const std::string& answer) { return answer.empty(); });
  if (!lost.empty())
    return {lost[0], lost,
            concat(operation, ": every rank must take part; got no sign of life from ",
                   list_ranks(lost), ", which died or was stopped")};
  const auto left = answers.ranks([](const std::string& answer) { return answer == kLeft; });
  if (!left.empty())
    return {left[0], left,
            concat(operation, ": every rank must take part; got ", list_ranks(left),
                   ", which has left the group")};
  const CollectiveOp op = operation.call.op;
  const int peer = operation.call.peer;
  if (late && op == CollectiveOp::recv)
    return {
        peer,
        {},
        concat(operation, ": rank ", peer, " must send within ", deadline_s, " s; got no message")};
  if (late && op == CollectiveOp::send)
    return {peer,
            {},
            concat(operation, ": rank ", peer, " must receive within ", deadline_s,
                   " s; got messages that it has not taken")};
  const auto absent = answers.ranks(
      [&](const std::string& answer) { return std::stoull(answer) < operation.sequence; });
  if (late && !absent.empty())
    return {absent[0],
            {},
            concat(operation, ": every rank must arrive within ", deadline_s,
                   " s; got no call from ", list_ranks(absent))};
  if (late)
    return {rank_,
            {},
            concat(operation, ": every rank must finish within ", deadline_s, " s; got ", got)};
  return {rank_, {}, concat(operation, ": the connections must hold; got ", got)};
}

// The judgement that stands, maybe by this rank.
Failure FailureBoard::find_out(const Operation& operation, bool late, const std::string& got) {
  const auto begin = Clock::now();
  const std::lock_guard lock(store_mutex_);
  // What did not answer the thread that looks, while this one waited for it, would cost as much time again.
  if (silent_at_ >= begin) throw CollectiveError(silence_, operation.where);
  const std::string own = std::to_string(rank_);
  const bool judges = store_.set_first(place("alarm"), own) == own;
  answer();
  // The one who judges may die as well.
  const auto end = alarm_heard_ + kAnswerTime + (judges ? kJudgeTime.zero() : kJudgeTime);
  Answers answers{std::vector<std::string>(static_cast<std::size_t>(world_size_))};
  for (;;) {
    if (const auto failure = store_.find(place("failure"))) return parse_failure(*failure);
    const bool is_time = Clock::now() >= end;
    if (judges || is_time) collect(answers);
    if (is_time || answers.complete()) {
      const Failure failure = judge(operation, answers, late, got);
      return parse_failure(store_.set_first(place("failure"), to_text(failure)));
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
      record({rank_,
              {},
              concat(operation, ": the ranks must find out who failed; got ", got,
                     ", and then: ", error.message())});
    }
  }
  const Failure failure = this->failure();
  // A judgement of this rank speaks of this operation.
  if (failure.text.starts_with(concat(operation, ": ")))
    throw CollectiveError(failure.text, operation.where);
  throw_broken(operation);
}

// The first who writes down whom it has seen has decided.
std::vector<int> FailureBoard::agree_on_survivors(Where where) {
  const auto begin = Clock::now();
  const std::lock_guard lock(store_mutex_);
  store_.set(place("here", rank_), "", where);
  const std::vector<int> lost = failure().lost;
  std::vector<bool> here(static_cast<std::size_t>(world_size_), false);
  const auto is_awaited = [&](int r) {
    if (std::find(lost.begin(), lost.end(), r) != lost.end()) return false;
    const auto answer =
        store_.find(place("rank", r), where);  // to the alarm; who is dead gives none
    return answer ? *answer != kLeft : Clock::now() - begin < kAnswerTime;
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
  RINGRAD_CHECK(std::find(survivors.begin(), survivors.end(), rank_) != survivors.end(),
                CollectiveError, where, "shrink: ranks must come within ",
                std::chrono::duration<double>(deadline_).count(), " s; rank ", rank_,
                " was late, and the others have gone on");
  return survivors;
}

}  // namespace ringrad
