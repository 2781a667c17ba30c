// Which accesses to memory are ordered, among the threads of one launch.
//
// The simulator runs one thread at a time, so all accesses happen in one order; on hardware only
// threads that meet are ordered. Time is therefore counted in segments: each time threads meet,
// those that met begin a new segment, with a number larger than all before. The access of a thread
// in segment s came before what thread t does now, if
//
//     both are the same thread
//     the block has met at a barrier since s
//     both are lanes of one warp, which has met as a whole since s
//     some lanes of that warp have met since s, in a chain from one to the other
//
// and at no other time. Lanes meet at __syncwarp(): shuffles and votes "do not imply a memory
// barrier" (CUDA C++ Programming Guide, "Warp Vote Functions"), and lanes run apart on sm_70 and
// newer. Blocks of a launch are never ordered. Different launches count as ordered: ThreadSanitizer
// checks the streams and events that order them (../sanitizers.h).

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace ringrad::sim {

/// An access as it is remembered.
struct Access {
  std::uint32_t block = 0;  // running number among the blocks of all launches; 0: no access
  std::uint32_t segment = 0;
  std::uint32_t code = 0;  // where its instruction returns to, from the program's first byte on
  std::uint16_t thread = 0;
  bool atomic = false;
};

/// What is wrong with an access.
struct Finding {
  enum class Kind { out_of_bounds, unwritten, race };
  Kind kind;
  const std::byte* p;  // the first byte that is concerned
  Access access{};
  std::size_t bytes = 0;  // of the whole access
  bool is_write = false;
  // The access that it races with.
  Access other{};
  bool other_is_write = false;
};

/// The order of one block's accesses. The members do nothing unless accesses are checked
/// (access_check.h).
class AccessOrder {
 public:
  /// Begins block `index` of a launch. `first_block` belongs to the launch; it is 0 until its first
  /// block begins.
  void begin(std::uint32_t& first_block, std::uint64_t num_blocks, std::uint64_t index,
             unsigned num_threads);
  /// Makes this thread the running one on the calling host thread, until leave().
  void enter(unsigned thread);
  static void leave();
  /// All threads meet now.
  void meet();
  /// All existing lanes of a warp meet now, or those of the mask.
  void meet_in_warp(unsigned warp);
  void meet_in_warp(unsigned warp, std::uint32_t mask);

  /// The order of the block that runs on the calling host thread; null if none does.
  static AccessOrder* current() { return current_; }
  /// An access of the thread that runs.
  Access access(std::uint32_t code, bool atomic) const {
    return {block_, segments_[thread_], code, static_cast<std::uint16_t>(thread_), atomic};
  }
  /// 0 within a warp, 1 within a block, 2 between blocks.
  static int distance(const Access& a, const Access& b) {
    return a.block != b.block ? 2 : a.thread / kLanes != b.thread / kLanes;
  }
  /// The index of the access's block within the launch.
  std::uint32_t block_of(const Access& a) const { return a.block - first_block_; }
  /// True if some thread of the launch may still do something that is not ordered after the access.
  bool is_open(const Access& a, bool is_shared) const {
    return is_of_launch(a) && (a.block == block_ ? a.segment >= met_ : !is_shared);
  }
  /// True if the access came before what the running thread does now. Accesses of other blocks to
  /// shared memory never conflict.
  bool is_before(const Access& a, bool is_shared) const;

  /// The first read of an unwritten value since the block last met.
  std::optional<Finding> unwritten;

 private:
  static constexpr unsigned kLanes = 32;

  struct Warp {
    std::uint32_t met = 0;  // the segment in which all lanes were together
    // known[i][j]: the last segment of lane j which came before what lane i does; null while only
    // whole warps meet.
    using Known = std::array<std::array<std::uint32_t, kLanes>, kLanes>;
    std::unique_ptr<Known> known;
  };

  bool is_of_launch(const Access& a) const { return a.block - first_block_ < num_blocks_; }

  static thread_local constinit AccessOrder* current_;

  std::uint32_t first_block_ = 0, num_blocks_ = 0;  // of the launch
  std::uint32_t block_ = 0;
  std::uint32_t met_ = 0;  // the segment in which all threads were together
  unsigned thread_ = 0;
  std::vector<std::uint32_t> segments_;  // of each thread
  std::vector<Warp> warps_;
};

}  // namespace ringrad::sim
