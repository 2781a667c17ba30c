#include "ringrad/parallel/comm/network/signs_of_life.h"

#include <algorithm>
#include <utility>

#include "ringrad/parallel/comm/common/process_state.h"

namespace ringrad {
namespace {

constexpr std::chrono::nanoseconds kShortestBeat = SignsOfLife::kLook;
constexpr std::chrono::nanoseconds kLongestBeat = std::chrono::seconds(2);

}  // namespace

SignsOfLife::SignsOfLife(std::string group, int rank, int world_size,
                         std::chrono::nanoseconds silence)
    : group_(std::move(group)),
      rank_(rank),
      world_size_(world_size),
      silence_(silence),
      processes_(static_cast<std::size_t>(world_size)) {}

void SignsOfLife::announce(Store& store, Where where) {
  store.set(place("process", rank_), own_process_card(), where);
  give(store);
}

// Several beats are due within the time after which a rank is lost.
void SignsOfLife::give(Store& store) {
  for (Watched& rank : watched_) rank.since.advance();
  if (Clock::now() < next_beat_) return;
  store.set(place("beat", rank_), std::to_string(++num_beats_));
  next_beat_ = Clock::now() + std::clamp(silence_ / 8, kShortestBeat, kLongestBeat);
}

std::string SignsOfLife::beat_of(int rank, Store& store) const {
  return store.find(place("beat", rank)).value_or("");
}

void SignsOfLife::watch(Store& store) {
  if (!watched_.empty()) return;
  for (int r = 0; r < world_size_; ++r) watched_.push_back({beat_of(r, store), RunningTime(kLook)});
}

bool SignsOfLife::has_ended(int rank, Store& store) {
  std::string& card = processes_[static_cast<std::size_t>(rank)];
  if (card.empty()) card = store.find(place("process", rank)).value_or("");
  return ringrad::has_ended(card);
}

void SignsOfLife::report_deaths(Store& store) {
  for (int r = 0; r < world_size_; ++r)
    if (has_ended(r, store)) store.set(place("dead", r), std::to_string(rank_));
}

bool SignsOfLife::is_lost(int rank, Store& store) {
  if (has_ended(rank, store) || store.find(place("dead", rank))) return true;
  Watched& watched = watched_[static_cast<std::size_t>(rank)];
  if (watched.since.advance() < silence_) return false;
  std::string now = beat_of(rank, store);
  if (now == watched.beat) return true;
  watched = {std::move(now), RunningTime(kLook)};
  return false;
}

}  // namespace ringrad
