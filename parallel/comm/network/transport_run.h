// TransportRun: carries out one rank's steps of a proved plan (collective_plan.h) as messages.
//
//     send           begins a message from the chunk's place
//     recv           is a message to the chunk's place
//     recv_reduce    is a message from each term's rank, and then their sum, in order
//     stage          copies the chunk
//
// A chunk is not overwritten before its send is done. Receives begin before all other steps where
// possible, so that messages of several ranks travel at the same time.

#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/common/reduce_op.h"
#include "ringrad/parallel/comm/network/transport.h"
#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

/// The carrier dtype of the elements that a reduction adds, and the operation.
struct Terms {
  DType dtype = DType::uint8;
  ReduceOp op = ReduceOp::sum;
};

class TransportRun {
 public:
  /// Where a chunk lies on this rank.
  using Places = std::function<std::span<std::byte>(int chunk)>;

  /// Messages have at most `largest_piece` bytes: longer ones are sent in pieces. The memory that
  /// `call` holds must include the places.
  TransportRun(Transport& transport, int rank, std::size_t largest_piece, TransportCall& call,
               Places places, Terms terms)
      : transport_(transport),
        rank_(rank),
        largest_piece_(largest_piece),
        call_(call),
        places_(std::move(places)),
        terms_(terms) {}

  /// Carries out the steps, and returns when no message uses this rank's memory any more. The
  /// caller still has to divide a mean.
  ///
  /// REQUIRES: `steps` are those of this rank, in the plan's order
  /// Throws:   TransportError
  void run(std::span<const Step> steps);

 private:
  using Transfers = std::vector<std::unique_ptr<Transfer>>;

  // Messages from a chunk's place.
  struct Sent {
    const std::byte* from;
    Transfers pieces;
  };
  // Messages of one term of a receive.
  struct Arrival {
    int from = 0;
    Tensor scratch = {};  // undefined for recv, which needs none
    Transfers pieces = {};
    bool has_begun = false;
  };

  std::vector<std::vector<Arrival>> begin_receives(std::span<const Step> steps);
  void begin(Arrival& arrival, std::span<std::byte> to);
  void receive(const Step& step, std::vector<Arrival>& arrivals);
  void send(std::span<const std::byte> from, int to);
  std::span<std::byte> staged(int chunk);
  void wait_for_sends_of(const std::byte* place);
  void wait(Transfers& pieces);

  Transport& transport_;
  const int rank_;
  const std::size_t largest_piece_;
  TransportCall& call_;
  const Places places_;
  const Terms terms_;
  std::vector<Sent> sent_;
  std::map<int, Tensor> staged_;
};

}  // namespace ringrad
