#include "ringrad/sim/racecheck/access_order.h"

#include <algorithm>

namespace ringrad::sim {
namespace {

// Used only by the thread that runs the scheduler. Both begin at 1, since 0 means no access.
std::uint32_t next_block = 1, next_segment = 1;

}  // namespace

thread_local constinit AccessOrder* AccessOrder::current_ = nullptr;

void AccessOrder::begin(std::uint32_t& first_block, std::uint64_t num_blocks, std::uint64_t index,
                        unsigned num_threads) {
  num_blocks_ = static_cast<std::uint32_t>(num_blocks);
  if (first_block == 0) {
    first_block = next_block;
    next_block += num_blocks_;
  }
  first_block_ = first_block;
  block_ = first_block_ + static_cast<std::uint32_t>(index);
  segments_.resize(num_threads);
  warps_.clear();
  warps_.resize((segments_.size() + kLanes - 1) / kLanes);
  meet();
}

void AccessOrder::enter(unsigned thread) {
  thread_ = thread;
  current_ = this;
}

void AccessOrder::leave() { current_ = nullptr; }

void AccessOrder::meet() {
  met_ = next_segment++;
  unwritten.reset();
  std::fill(segments_.begin(), segments_.end(), met_);
}

void AccessOrder::meet_in_warp(unsigned warp) {
  const std::size_t first = warp * kLanes;
  const std::size_t end = std::min<std::size_t>(first + kLanes, segments_.size());
  warps_[warp].met = next_segment++;
  std::fill(segments_.begin() + first, segments_.begin() + end, warps_[warp].met);
}

void AccessOrder::meet_in_warp(unsigned warp, std::uint32_t mask) {
  auto& known = warps_[warp].known;
  if (!known) known = std::make_unique<Warp::Known>();
  std::uint32_t* segments = &segments_[warp * kLanes];
  std::array<std::uint32_t, kLanes> all{};
  for (unsigned i = 0; i < kLanes; ++i)
    for (unsigned j = 0; j < kLanes; ++j)
      if (mask >> i & 1) all[j] = std::max(all[j], (*known)[i][j]);
  for (unsigned i = 0; i < kLanes; ++i)
    if (mask >> i & 1) all[i] = segments[i];
  for (unsigned i = 0; i < kLanes; ++i)
    if (mask >> i & 1) {
      (*known)[i] = all;
      segments[i] = next_segment;
    }
  ++next_segment;
}

bool AccessOrder::is_before(const Access& a, bool is_shared) const {
  if (!is_of_launch(a)) return true;
  if (a.block != block_) return is_shared;
  if (a.thread == thread_ || a.segment < met_) return true;
  const unsigned warp = thread_ / kLanes;
  if (a.thread / kLanes != warp) return false;
  const Warp& own = warps_[warp];
  return a.segment < own.met ||
         (own.known && a.segment <= (*own.known)[thread_ % kLanes][a.thread % kLanes]);
}

}  // namespace ringrad::sim
