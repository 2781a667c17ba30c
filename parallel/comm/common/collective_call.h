// CollectiveCall: the fingerprint of a call, compared across ranks before any data moves.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"
#include "ringrad/core/dtype.h"
#include "ringrad/core/tensor.h"
#include "ringrad/parallel/comm/common/rank_names.h"
#include "ringrad/parallel/comm/common/reduce_op.h"

namespace ringrad {

enum class CollectiveOp : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  all_to_all,
  barrier,
  send,
  recv,
  links,
};

/// True for the collectives of one tensor, which is both their input and their output.
constexpr bool is_in_place(CollectiveOp op) {
  return op == CollectiveOp::all_reduce || op == CollectiveOp::broadcast ||
         op == CollectiveOp::reduce;
}

/// True for the collectives that add up what the ranks give.
constexpr bool is_reduction(CollectiveOp op) {
  return op == CollectiveOp::all_reduce || op == CollectiveOp::reduce_scatter ||
         op == CollectiveOp::reduce;
}

constexpr bool is_message(CollectiveOp op) {
  return op == CollectiveOp::send || op == CollectiveOp::recv;
}

/// What a rank asked for. Fields that mean nothing to an operation keep their defaults.
struct CollectiveCall {
  CollectiveOp op = CollectiveOp::barrier;
  DType dtype = DType::float32;
  ReduceOp reduce = ReduceOp::sum;
  DeviceType device = DeviceType::cpu;
  std::int16_t peer = 0;      ///< root of broadcast and reduce; the other end of send and recv
  std::uint16_t purpose = 0;  ///< what the call is for (call_purpose.h); 0: the user's own
  std::int64_t count = 0;     ///< elements of the whole buffer
  std::uint64_t plan = 0;     ///< which plan the rank is to run; 0: not known yet

  bool operator==(const CollectiveCall&) const = default;
};

static_assert(sizeof(CollectiveCall) == 24 &&
              std::has_unique_object_representations_v<CollectiveCall>);

/// The call of `op` on a rank whose whole buffer is `buffer`, for the purpose of the calling thread
/// (call_purpose.h).
CollectiveCall call_of(CollectiveOp op, const Tensor& buffer, ReduceOp reduce = ReduceOp::sum,
                       int peer = 0);

const char* name(CollectiveOp op);

/// "all_reduce(sum, float32, 8 elements)", "broadcast(float32, 8 elements on cuda, root 0)",
/// "barrier()"
std::ostream& operator<<(std::ostream& out, const CollectiveCall& call);

/// One call on one rank, for deadlines and messages.
struct Operation {
  CollectiveCall call;
  int rank;
  std::uint64_t sequence;  ///< 1 for a rank's first collective, or first message on a channel
  Where where;
  std::optional<std::chrono::steady_clock::time_point> deadline =
      {};  ///< set at the first long wait
  const RankNames* names =
      nullptr;  ///< the group's, for messages; null if the ranks' own numbers are used
  /// The memory that the call writes and reads on this rank; null: none, or not known.
  const std::byte* output = nullptr;
  const std::byte* input = nullptr;
};

/// "all_reduce(sum, float32, 8 elements) #3 on rank 0". Ranks are named by their numbers in the
/// job.
std::ostream& operator<<(std::ostream& out, const Operation& operation);

/// Throws CollectiveError "all_reduce(...) #3 on rank 0: the group must be whole; got a failure of
/// rank 2: it has died". `culprit` is a number in the job; negative: unknown.
[[noreturn]] void throw_broken_group(const Operation& operation, int culprit,
                                     std::string_view failure);

/// Which ranks made which call: "all_reduce(...) on ranks 0, 2 and barrier() on rank 1". calls[i]
/// is the call of ranks[i] or, without `ranks`, of rank i.
std::string list_calls(std::span<const CollectiveCall> calls, const RankNames& names,
                       std::span<const int> ranks = {});

/// The rank to blame if calls differ: the first whose call is not the one that more than half of
/// the `world_size` ranks made; -1 if no call has such a majority. `calls`, `ranks`: as above;
/// there may be fewer than world_size.
int odd_one_out(std::span<const CollectiveCall> calls, int world_size,
                std::span<const int> ranks = {});

}  // namespace ringrad
