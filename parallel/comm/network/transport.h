// Transport: what a foreign library must do for a backend. A transport moves bytes; all transports
// share the rest (transport_communicator.h).
//
// Calls of one group do not overlap. There are two or more ranks. No message is larger than
// TransportOptions::largest_piece. A function that cannot continue throws TransportError; after
// that the transport gets no more calls except split().

#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/core/tensor.h"
#include "ringrad/parallel/comm/common/no_broken_pipe.h"
#include "ringrad/parallel/comm/store/store.h"

namespace ringrad {

/// The library's error message.
struct TransportError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One call of a communicator, with the time until which the transport may wait for other ranks.
/// Writing to a rank that is gone does not end this process.
class TransportCall {
 public:
  using Clock = std::chrono::steady_clock;

  /// `memory` holds the tensors that the transport reads and writes.
  TransportCall(Clock::time_point deadline, const std::atomic<bool>& broken,
                std::vector<Tensor> memory)
      : deadline_(deadline), broken_(broken), memory_(std::move(memory)) {}

  /// At least 1 ms, and within the range of every library.
  std::chrono::milliseconds time_left() const {
    using std::chrono::milliseconds;
    const auto left = std::min<Clock::duration>(deadline_ - Clock::now(), std::chrono::hours(240));
    return std::max(std::chrono::ceil<milliseconds>(left), milliseconds(1));
  }

  /// Transports that poll for completion must also call this in each round.
  ///
  /// Throws: TransportError once the deadline has passed or the group is broken
  void check() const {
    if (broken_.load(std::memory_order_acquire)) throw TransportError("another failure");
    if (Clock::now() >= deadline_) throw TransportError("nothing in time");
  }

  /// For transports that cannot cancel an operation: they must keep this memory for as long as they
  /// live.
  const std::vector<Tensor>& memory() const { return memory_; }
  void use(const Tensor& memory) { memory_.push_back(memory); }

 private:
  const NoBrokenPipe guard_;
  const Clock::time_point deadline_;
  const std::atomic<bool>& broken_;
  std::vector<Tensor> memory_;
};

/// A message in flight, at either end.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// Returns when the message's memory is no longer needed, or has been written.
  virtual void wait(TransportCall& call) = 0;
};

/// Within a channel, messages from one rank to another arrive in the order in which they were sent.
enum class Channel : std::uint8_t {
  messages,     ///< Communicator::send and recv
  collectives,  ///< what plans send (transport_run.h)
};

class Transport {
 public:
  virtual ~Transport() = default;

  /// The receiver knows the message's size, which is not 0. `memory` holds the data.
  virtual std::unique_ptr<Transfer> send(const std::byte* data, std::size_t bytes, int to,
                                         Channel channel, std::vector<Tensor> memory) = 0;
  virtual std::unique_ptr<Transfer> recv(std::byte* data, std::size_t bytes, int from,
                                         Channel channel, std::vector<Tensor> memory) = 0;

  /// Makes a waiting call throw soon. Called by another thread. Not needed if calls poll
  /// TransportCall::check().
  virtual void interrupt() noexcept {}
  /// Makes a waiting call throw if its connection has ended. During a call, another thread calls
  /// this about every 20 ms. Not needed if such calls throw by themselves.
  virtual void end_lost_waits() noexcept {}

  /// A transport of the given ranks, in the given order; called on those ranks alone.
  ///
  /// Throws: CollectiveError
  virtual std::unique_ptr<Transport> split(Store& store, const std::vector<int>& ranks, int own,
                                           const std::string& name, Where where) = 0;
  /// Called before every other call.
  ///
  /// Throws: CollectiveError if the library must not be called now, or not by this thread
  virtual void check_usable(Where /*where*/) const {}
  /// False if only the thread that initialised the library may call.
  virtual bool serves_all_threads() const { return true; }
  /// True if split() works after a rank has died.
  virtual bool outlives_ranks() const = 0;
};

}  // namespace ringrad
