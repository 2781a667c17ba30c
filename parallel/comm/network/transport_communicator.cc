#include "ringrad/parallel/comm/network/transport_communicator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/common/collective_call.h"
#include "ringrad/parallel/comm/common/culprit_report.h"
#include "ringrad/parallel/comm/common/own_process.h"
#include "ringrad/parallel/comm/common/unwinding.h"
#include "ringrad/parallel/comm/memory/program_cache.h"
#include "ringrad/parallel/comm/network/carried.h"
#include "ringrad/parallel/comm/network/failure_board.h"
#include "ringrad/parallel/comm/network/transport_collectives.h"

namespace ringrad {
namespace {

// As between threads: so many messages to one rank may be on their way.
constexpr std::size_t kMessages = 4;

Tensor bytes_of(std::size_t count) {
  return empty({static_cast<std::int64_t>(count)}, {.dtype = DType::uint8, .device = Device()});
}

// What one rank sends to another: what it is, and then the elements.
struct Message {
  Tensor memory;
  std::vector<OwnedByProcess<Transfer>> pieces;

  void wait(TransportCall& call) {
    for (const auto& piece : pieces) piece->wait(call);
  }
};

class TransportCommunicator final : public Communicator {
 public:
  TransportCommunicator(const Store& store, std::string group, int rank, int world_size,
                        std::unique_ptr<Transport> transport, const TransportOptions& options,
                        Where where)
      : Communicator(rank, world_size, group, options.rank_names),
        options_(options),
        store_(store.another(options.join_timeout, where)),
        collectives_(std::move(transport), rank, world_size, options.largest_piece,
                     {rank, world_size, options,
                      options.ranks_per_host > 0 ? options.ranks_per_host : world_size}),
        num_messages_to_(static_cast<std::size_t>(world_size), 0),
        num_messages_from_(static_cast<std::size_t>(world_size), 0),
        outbox_(static_cast<std::size_t>(world_size)),
        board_(
            store_.another(options.join_timeout, where), std::move(group), rank, world_size,
            options,
            [this] {
              if (Transport* const working = collectives_.transport()) working->interrupt();
            },
            [this] {
              if (Transport* const working = collectives_.transport()) working->end_lost_waits();
            },
            where) {}

  // Waits until the other ranks have received what this one has sent, or the deadline has passed.
  ~TransportCommunicator() override {
    if (!in_own_process_) return;
    if (unwinding_) board_.fail(kEndedByException);
    TransportCall call(board_.begin_call(false), board_.broken(), {});
    try {
      for (auto& messages : outbox_)
        for (Message& message : messages)
          if (!board_.broken()) message.wait(call);
    } catch (const TransportError&) {  // the receiver has failed, or does not receive
    }
    board_.end_call();
  }

  int failed_rank() const noexcept override { return board_.failed_rank(); }
  bool serves_all_threads() const override {
    const Transport* const transport = collectives_.transport();
    return !transport || transport->serves_all_threads();
  }

 protected:
  void do_abort(const std::string& reason) noexcept override { board_.fail(reason); }
  void do_collective(const CollectiveCall& call, const Tensor& output, const Tensor& input,
                     Where where) override;
  void do_meet(const CollectiveCall& call, Where where) override;
  void do_send(const Tensor& tensor, int to, Where where) override;
  void do_recv(const Tensor& tensor, int from, Where where) override;
  std::unique_ptr<Communicator> do_split(const std::vector<int>& ranks, const std::string& name,
                                         Where where) override;
  std::unique_ptr<Communicator> do_shrink(Where where) override;

 private:
  Operation operation(const CollectiveCall& call, std::uint64_t sequence, Where where) const {
    return {call, rank(), sequence, where, {}, &rank_names()};
  }

  template <class Body>
  void perform(const Operation& operation, std::vector<Tensor> memory, Body body);
  template <class Body>
  void perform_collective(const CollectiveCall& call, Where where, std::vector<Tensor> memory,
                          Body body);
  void compare(const Operation& operation, TransportCall& call);
  std::unique_ptr<Communicator> make_subgroup(const std::vector<int>& ranks,
                                              const std::string& name, Where where);

  const TransportOptions options_;
  Store store_;
  TransportCollectives collectives_;
  std::uint64_t sequence_ = 0;  // of the latest collective that was entered
  std::vector<std::uint64_t> num_messages_to_, num_messages_from_;  // (world_size)
  std::vector<std::deque<Message>> outbox_;                         // (world_size)
  const Unwinding unwinding_;
  const OwnProcess in_own_process_;
  FailureBoard board_;  // ends before what it interrupts
};

// --- One call ---

template <class Body>
void TransportCommunicator::perform(const Operation& operation, std::vector<Tensor> memory,
                                    Body body) {
  if (const Transport* const transport = collectives_.transport())
    transport->check_usable(operation.where);
  TransportCall call(board_.begin_call(!is_message(operation.call.op), &operation), board_.broken(),
                     std::move(memory));
  try {
    board_.check_whole(
        operation);  // after begin_call: a failure from now on interrupts the transport
    body(call);
  } catch (const TransportError& error) {
    board_.investigate(operation, error.what());
  } catch (...) {
    board_.end_call();
    throw;
  }
  board_.end_call();
}

template <class Body>
void TransportCommunicator::perform_collective(const CollectiveCall& call, Where where,
                                               std::vector<Tensor> memory, Body body) {
  const Operation operation = this->operation(call, sequence_ + 1, where);
  perform(operation, std::move(memory), [&](TransportCall& transport_call) {
    ++sequence_;
    compare(operation, transport_call);
    body(transport_call);
  });
}

// If the calls differ, all ranks get all of them.
void TransportCommunicator::compare(const Operation& operation, TransportCall& call) {
  const auto own = std::as_bytes(std::span(&operation.call, 1));
  if (collectives_.are_equal(own, call)) return;
  const std::vector<std::byte> all =
      gather(*collectives_.transport(), rank(), world_size(), own, call);
  std::vector<CollectiveCall> calls(static_cast<std::size_t>(world_size()));
  std::memcpy(calls.data(), all.data(), all.size());
  board_.fail_and_throw(operation, odd_one_out(calls, world_size()),
                        concat(operation, ": all ranks must make the same call; got ",
                               list_calls(calls, rank_names())));
}

// --- Collectives ---

// The plan becomes a part of the call: ranks whose plans differ make different calls.
void TransportCommunicator::do_collective(const CollectiveCall& call, const Tensor& output,
                                          const Tensor& input, Where where) {
  const Carried out(output, is_reduction(call.op));
  const Carried in = is_in_place(call.op) ? out : Carried(input, is_reduction(call.op));
  const std::size_t bytes = std::max(out.bytes(), in.bytes());
  const auto& [plan, number] = collectives_.plan(collective_of(call.op), bytes, call.peer, where);
  CollectiveCall planned = call;
  planned.plan = number;
  std::vector<Tensor> memory{out.elements()};
  if (!is_in_place(call.op)) memory.push_back(in.elements());
  perform_collective(planned, where, std::move(memory),
                     [&, &plan = plan](TransportCall& transport_call) {
                       in.take();
                       collectives_.run(plan, out.data(), in.data(), bytes,
                                        {in.dtype(), call.reduce}, transport_call);
                       out.put_back();
                     });
}

// Comparing the calls is the whole operation.
void TransportCommunicator::do_meet(const CollectiveCall& call, Where where) {
  perform_collective(call, where, {}, [](TransportCall&) {});
}

// --- Messages ---

void TransportCommunicator::do_send(const Tensor& tensor, int to, Where where) {
  const CollectiveCall call = call_of(CollectiveOp::send, tensor, ReduceOp::sum, to);
  std::uint64_t& number = num_messages_to_[static_cast<std::size_t>(to)];
  std::deque<Message>& messages = outbox_[static_cast<std::size_t>(to)];
  Transport& transport = *collectives_.transport();  // there is another rank
  perform(operation(call, number + 1, where), {}, [&](TransportCall& transport_call) {
    for (; messages.size() >= kMessages; messages.pop_front())
      messages.front().wait(transport_call);
    const Tensor memory = bytes_of(sizeof call + bytes_in(tensor));
    std::byte *const header = memory.raw_data(), *const elements = header + sizeof call;
    std::memcpy(header, &call, sizeof call);
    if (tensor.numel() > 0) std::memcpy(elements, tensor.raw_data(), bytes_in(tensor));
    Message& message = messages.emplace_back(Message{memory, {}});
    message.pieces.emplace_back(
        transport.send(header, sizeof call, to, Channel::messages, {memory}).release());
    collectives_.for_pieces(bytes_in(tensor), [&](std::size_t first, std::size_t bytes) {
      message.pieces.emplace_back(
          transport.send(elements + first, bytes, to, Channel::messages, {memory}).release());
    });
  });
  ++number;
}

void TransportCommunicator::do_recv(const Tensor& tensor, int from, Where where) {
  const CollectiveCall call = call_of(CollectiveOp::recv, tensor, ReduceOp::sum, from);
  std::uint64_t& number = num_messages_from_[static_cast<std::size_t>(from)];
  const Operation operation = this->operation(call, number + 1, where);
  const Tensor header = bytes_of(sizeof call);
  Transport& transport = *collectives_.transport();
  perform(operation, {tensor, header}, [&](TransportCall& transport_call) {
    CollectiveCall sent;
    const auto receive = [&](std::byte* to, std::size_t bytes) {
      transport.recv(to, bytes, from, Channel::messages, transport_call.memory())
          ->wait(transport_call);
    };
    receive(header.raw_data(), sizeof sent);
    std::memcpy(&sent, header.raw_data(), sizeof sent);
    if (sent.dtype != call.dtype || sent.count != call.count)
      board_.fail_and_throw(
          operation, kNobody,
          concat(operation, ": the message must be ", sent.dtype, ", ", sent.count,
                 " elements as sent by rank ", rank_names()(from), "; got a tensor of ", call.dtype,
                 ", ", call.count, " elements"));
    collectives_.for_pieces(bytes_in(tensor), [&](std::size_t first, std::size_t bytes) {
      receive(tensor.raw_data() + first, bytes);
    });
  });
  ++number;
}

// --- Other groups of the same ranks ---

std::unique_ptr<Communicator> TransportCommunicator::make_subgroup(const std::vector<int>& ranks,
                                                                   const std::string& name,
                                                                   Where where) {
  const int size = static_cast<int>(ranks.size());
  const auto own = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin());
  auto transport =
      size == 1 ? nullptr : collectives_.transport()->split(store_, ranks, own, name, where);
  TransportOptions options = options_;
  options.rank_names = rank_names().of(ranks);
  options.ranks_per_host = 0;
  return make_transport_communicator(store_, name, own, size, std::move(transport), options, where);
}

// The ranks have exchanged what they want. One that dies before it has connected is named as if it
// had died in that call.
std::unique_ptr<Communicator> TransportCommunicator::do_split(const std::vector<int>& ranks,
                                                              const std::string& name,
                                                              Where where) {
  if (ranks.empty()) return nullptr;
  try {
    return make_subgroup(ranks, name, where);
  } catch (const CollectiveError& error) {
    const CollectiveCall exchange{
        .op = CollectiveOp::all_gather, .dtype = DType::int64, .count = 2 * world_size()};
    board_.investigate(operation(exchange, sequence_, where), std::string(error.message()));
  }
}

std::unique_ptr<Communicator> TransportCommunicator::do_shrink(Where where) {
  if (Transport* const transport = collectives_.transport();
      transport && !transport->outlives_ranks())
    return Communicator::do_shrink(where);
  return make_subgroup(board_.agree_on_survivors(where), group() + ".shrunk", where);
}

}  // namespace

TransportOptions with_interface(TransportOptions options) {
  const char* name = std::getenv("RINGRAD_INTERFACE");
  if (options.interface.empty() && name != nullptr) options.interface = name;
  return options;
}

void meet(Store& store, const std::string& group, int rank, int world_size,
          const TransportOptions& options, Where where) {
  check_options(world_size, options, where);
  RINGRAD_CHECK(rank >= 0 && rank < world_size, ValueError, where,
                "group: the rank must be in [0, ", world_size, "); got ", rank);
  RINGRAD_CHECK(options.largest_piece > 0 && options.largest_piece <= kLargestPiece, ValueError,
                where, "group: pieces must have 1 to ", kLargestPiece, " bytes; got ",
                options.largest_piece);
  const auto place = [&](int r) { return concat(group, "/ranks/", r); };
  const std::string own = std::to_string(world_size);
  RINGRAD_CHECK(store.add(place(rank) + "/claims", 1, where) == 1, CollectiveError, where,
                "group: each rank must be one process; got a second rank ", rank, " of ", group);
  store.set(place(rank), own, where);
  for (int r = 0; r < world_size; ++r) {
    const std::string other = store.get(place(r), where);
    RINGRAD_CHECK(other == own, CollectiveError, where, "group: all ranks must be of as many; got ",
                  other, " on rank ", r, " and ", own, " on rank ", rank);
  }
}

std::unique_ptr<Communicator> make_transport_communicator(const Store& store, std::string group,
                                                          int rank, int world_size,
                                                          std::unique_ptr<Transport> transport,
                                                          const TransportOptions& options,
                                                          Where where) {
  return std::make_unique<TransportCommunicator>(store, std::move(group), rank, world_size,
                                                 std::move(transport), options, where);
}

}  // namespace ringrad
