#include "ringrad/parallel/comm/network/failure_board.h"

#include <algorithm>
#include <iterator>
#include <locale>
#include <sstream>
#include <utility>

#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/parallel/comm/common/culprit_report.h"

namespace ringrad {
namespace {

constexpr auto kTick = std::chrono::milliseconds(20);  // how exactly a deadline is kept
constexpr auto kLook = SignsOfLife::kLook;             // between looks at the board
constexpr auto kLookAgain = std::chrono::seconds(1);   // where the store did not answer

// A store that lives answers by 1 / kStoreShare of GroupOptions::verdict_time.
constexpr int kStoreShare = 2;

}  // namespace

FailureBoard::FailureBoard(Store store, std::string group, int rank, int world_size,
                           const GroupOptions& options, std::function<void()> interrupt,
                           std::function<void()> tend, Where where)
    : group_(std::move(group)),
      rank_(rank),
      world_size_(world_size),
      names_(options.rank_names),
      deadline_(options.deadline),
      silence_(longest_silence(options)),
      verdict_time_(options.verdict_time),
      interrupt_(std::move(interrupt)),
      tend_(std::move(tend)),
      changed_(new std::condition_variable),
      num_sent_(static_cast<std::size_t>(world_size), 0),
      num_received_(static_cast<std::size_t>(world_size), 0),
      store_(std::move(store)),
      signs_(group_, rank, world_size, silence_) {
  signs_.announce(store_, where);
  store_.answer_within(std::chrono::ceil<std::chrono::milliseconds>(verdict_time_ / kStoreShare));
  thread_.reset(new std::thread([this] { watch(); }));
}

FailureBoard::~FailureBoard() {
  if (!in_own_process_) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_->notify_all();
  thread_->join();
  try {
    store_.set(place("rank", rank_), kLeft);
  } catch (const CollectiveError&) {  // the store is gone, and so are its readers
  }
}

// --- Calls ---

FailureBoard::Clock::time_point FailureBoard::begin_call(bool is_collective,
                                                         const Operation* operation) {
  const auto now = Clock::now();
  const auto longest = Clock::time_point::max() - now;  // a longer deadline would overflow
  const std::lock_guard lock(mutex_);
  in_call_ = true;
  ++num_calls_;
  if (is_collective) ++num_collectives_;
  is_collective_ = is_collective;
  operation_ = operation ? std::optional(*operation) : std::nullopt;
  call_began_ = now;
  return call_deadline_ = now + std::min<Clock::duration>(deadline_, longest);
}

void FailureBoard::end_call() {
  bool was_interrupted = false;
  {
    const std::lock_guard lock(mutex_);
    in_call_ = false;
    was_interrupted = interrupted_;
    if (operation_ && operation_->call.op == CollectiveOp::send)
      ++num_sent_[static_cast<std::size_t>(operation_->call.peer)];
    if (operation_ && operation_->call.op == CollectiveOp::recv)
      ++num_received_[static_cast<std::size_t>(operation_->call.peer)];
  }
  // It came to its end all the same, but what it used has been told to stop.
  if (was_interrupted && !broken()) fail("its call ended only when the deadline passed");
}

// --- The thread that looks ---

void FailureBoard::watch() {
  auto next_look = Clock::now();
  std::unique_lock lock(mutex_);
  while (!changed_->wait_for(lock, kTick, [&] { return ending_ || broken_; })) {
    if (in_call_ && tend_) tend_();
    if (in_call_ && !interrupted_ && Clock::now() >= call_deadline_) {
      interrupted_ = late_ = true;
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
  std::optional<Failure> mixed;
  {
    const std::lock_guard lock(store_mutex_);
    try {
      signs_.give(store_);
      watch_others();
      if (store_.find(place("alarm"))) {
        answer();
        failure = store_.find(place("failure"));
        if (!failure) testify();
      } else {
        mixed = compare_waits();
      }
    } catch (const CollectiveError& error) {
      silence_of_store_ = error.message();
      silent_at_ = Clock::now();
      return false;
    }
  }
  if (failure) record(parse_failure(*failure));
  if (mixed) fail(*mixed);
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
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    text = concat(num_collectives_, late_ ? kLate : "");
    alarm_heard_ = Clock::now();
  }
  store_.set(place("rank", rank_), text);
}

std::string FailureBoard::to_text(const Failure& failure) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << failure.culprit << ' ' << failure.lost.size();
  for (const int rank : failure.lost) out << ' ' << rank;
  out << ' ' << failure.text;
  return std::move(out).str();
}

Failure FailureBoard::parse_failure(const std::string& text) const {
  Failure failure;
  std::size_t num_lost = 0;
  std::istringstream words(text);
  words.imbue(std::locale::classic());
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
  changed_->notify_all();
  if (in_call_ && !std::exchange(interrupted_, true)) interrupt_();
}

Failure FailureBoard::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void FailureBoard::fail(Failure failure) noexcept {
  if (broken_.load(std::memory_order_acquire)) return;
  try {
    const std::lock_guard lock(store_mutex_);
    store_.set_first(place("alarm"), std::to_string(rank_));
    answer();  // the survivors wait for this rank's answer
    failure = parse_failure(store_.set_first(place("failure"), to_text(failure)));
  } catch (const std::exception&) {  // then this rank alone knows
  }
  record(failure);
}

void FailureBoard::fail_and_throw(const Operation& operation, int culprit,
                                  const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    in_call_ = false;  // nothing is left to interrupt
  }
  fail({culprit, {}, text});
  throw CollectiveError(text, operation.where);
}

void FailureBoard::throw_broken(const Operation& operation) const {
  const Failure failure = this->failure();
  throw_broken_group(operation, names_(failure.culprit), failure.text);
}

}  // namespace ringrad
