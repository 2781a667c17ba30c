#include "ringrad/parallel/comm/communicator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <utility>

#include "ringrad/core/transfer.h"
#include "ringrad/parallel/comm/common/collective_call.h"
#include "ringrad/parallel/comm/record/fault_injection.h"
#include "ringrad/parallel/comm/record/flight_recorder.h"

namespace ringrad {
namespace {

void check_tensor(const char* operation, const Tensor& tensor, Where where) {
  RINGRAD_CHECK(tensor.defined(), ValueError, where, operation,
                ": the tensor must be defined; got an undefined tensor");
  RINGRAD_CHECK(tensor.is_contiguous(), ShapeError, where, operation,
                ": the tensor must be contiguous; got shape ", tensor.shape(), " with strides ",
                tensor.strides());
}

// A tensor that the call writes to. On ranks that only read it as well: a refusal on some ranks
// would leave the others waiting.
void check_target(const char* operation, const Tensor& tensor, Where where) {
  check_tensor(operation, tensor, where);
  tensor.check_writable(operation, where);
}

// Ranks on threads may share a tensor without elements, since nothing is written to it: no version
// either.
void mark_changed(const Tensor& target, Where where) {
  if (target.numel() > 0) target.mark_changed(where);
}

void check_reducible(const char* operation, DType dtype, ReduceOp op, Where where) {
  RINGRAD_CHECK(op != ReduceOp::mean || is_floating(dtype), DTypeError, where, operation,
                ": mean needs a floating dtype; got ", dtype);
  RINGRAD_CHECK(op != ReduceOp::sum || dtype != DType::bool_, DTypeError, where, operation,
                ": sum needs a dtype with numbers, for bool use max; got ", dtype);
}

struct Range {
  const std::byte *begin, *end;
};

Range range_of(const Tensor& tensor) {
  const std::byte* const begin = tensor.raw_data();
  return {begin, begin + static_cast<std::size_t>(tensor.numel()) * size_bytes(tensor.dtype())};
}

// Results that are written while elements are still read would be wrong, on some backends and for
// some sizes.
void check_apart(const char* operation, const Tensor& a, const Tensor& b, Where where) {
  const Range of_a = range_of(a), of_b = range_of(b);
  const std::less<const std::byte*> before;
  const bool are_apart = a.device() != b.device() || of_a.begin == of_a.end ||
                         of_b.begin == of_b.end || !before(of_a.begin, of_b.end) ||
                         !before(of_b.begin, of_a.end);
  RINGRAD_CHECK(are_apart, ValueError, where, operation,
                ": output and input must not share memory; got ", of_a.end - of_a.begin, " and ",
                of_b.end - of_b.begin, " bytes that overlap");
}

// `whole` holds one `part` per rank; `part` may be this rank's in `whole`.
void check_parts(const char* operation, const Tensor& whole, const Tensor& part,
                 const Communicator& comm, Where where) {
  const int world_size = comm.world_size();
  check_tensor(operation, whole, where);
  check_tensor(operation, part, where);
  check_same_dtype(operation, whole, part, where);
  RINGRAD_CHECK(whole.numel() == part.numel() * world_size, ShapeError, where, operation,
                ": one tensor must hold ", world_size, " times the elements of the other; got ",
                whole.shape(), " and ", part.shape());
  const Range own = range_of(part);
  if (own.begin != range_of(whole).begin + comm.rank() * (own.end - own.begin))
    check_apart(operation, whole, part, where);
}

void check_root(const char* operation, int root, int world_size, Where where) {
  RINGRAD_CHECK(root >= 0 && root < world_size, ValueError, where, operation,
                ": root must be in [0, ", world_size, "); got ", root);
}

void check_exchange(const Tensor& output, const Tensor& input, int world_size, Where where) {
  check_target("all_to_all", output, where);
  check_tensor("all_to_all", input, where);
  check_same_dtype("all_to_all", output, input, where);
  RINGRAD_CHECK(output.numel() == input.numel() && input.numel() % world_size == 0, ShapeError,
                where, "all_to_all: both tensors must hold ", world_size, " equal parts; got ",
                output.shape(), " and ", input.shape());
  check_apart("all_to_all", output, input, where);
}

// A tensor where the backend can work on it: itself, or for a GPU's tensor that it does not reach a
// copy on the CPU that put_back() returns. Copies follow the current stream, so results are where
// later work on it expects them.
class HostTensor {
 public:
  HostTensor(const Tensor& tensor, bool is_reached, Where where)
      : original_(tensor), host_(is_reached ? tensor : to_host(tensor, where)) {}

  operator const Tensor&() const { return host_; }

  void put_back(Where where) const {
    if (original_.device() == host_.device()) return;
    copy_bytes(original_.raw_data(), original_.device(), host_.raw_data(), host_.device(),
               static_cast<std::size_t>(host_.numel()) * size_bytes(host_.dtype()), where);
  }

 private:
  const Tensor& original_;
  Tensor host_;
};

}  // namespace

// Marks the communicator as busy for one call, so that a second thread, or a forked child, gets an
// error instead of mixing up the sequence. Communicators may be made of others: the user's call is
// the outermost of its thread.
class Communicator::OneCall {
 public:
  OneCall(Communicator& comm, const char* what, Where where) : comm_(comm) {
    RINGRAD_CHECK(comm_.in_own_process_, CollectiveError, where, what,
                  ": a communicator serves the process that made it; got a call in a forked child");
    RINGRAD_CHECK(!comm_.in_call_.exchange(true, std::memory_order_acquire), CollectiveError, where,
                  what, ": a communicator serves one thread at a time; got a second call on rank ",
                  comm_.rank_names_(comm_.rank_), " while another is running");
    ++depth_;
  }
  ~OneCall() {
    --depth_;
    comm_.in_call_.store(false, std::memory_order_release);
  }
  OneCall(const OneCall&) = delete;
  OneCall& operator=(const OneCall&) = delete;

  bool is_outermost() const { return depth_ == 1; }

  /// The other ranks wait for this one's part of the call. An exception is the end of it, whatever
  /// threw it. But a tensor that a backend cannot reach is refused before the call begins, as any
  /// other wrong argument.
  template <class Body>
  auto run(const char* what, Body body) const {
    try {
      return body();
    } catch (const DeviceError&) {
      throw;
    } catch (const std::exception& error) {
      comm_.abort(concat(what, " ended with ", error.what()));
      throw;
    } catch (...) {
      comm_.abort(concat(what, " ended with an exception of unknown type"));
      throw;
    }
  }

 private:
  static inline thread_local int depth_ = 0;

  Communicator& comm_;
};

Communicator::Communicator(int rank, int world_size, std::string group, RankNames rank_names)
    : rank_(rank),
      world_size_(world_size),
      group_(std::move(group)),
      rank_names_(std::move(rank_names)),
      fault_injection_(FaultInjection::planned()),
      flight_(std::make_unique<FlightRecorder>(group_)) {}

Communicator::~Communicator() = default;

template <class Body>
void Communicator::perform(const CollectiveCall& call, Where where, Body body) {
  const OneCall one(*this, name(call.op), where);
  if (fault_injection_ && one.is_outermost()) [[unlikely]]
    fault_injection_->call();
  record(call, where, [&] { one.run(name(call.op), body); });
}

template <class Body>
void Communicator::record(const CollectiveCall& call, Where where, Body body) {
  flight_->begin(call, where);
  try {
    body();
  } catch (const std::exception& error) {
    flight_->end(FlightRecord::State::failed);
    flight_->dump(rank_, world_size_, error.what());
    throw;
  }
  flight_->end(FlightRecord::State::finished);
}

void Communicator::run(const CollectiveCall& call, const Tensor& output, const Tensor& input,
                       Where where) {
  const bool is_root = rank_ == call.peer;
  perform(call, where, [&] {
    if (call.op != CollectiveOp::broadcast || !is_root) mark_changed(output, where);
    const bool is_reached = reaches(output.device()) && reaches(input.device());
    CollectiveCall reached = call;
    if (!is_reached) reached.device = DeviceType::cpu;
    const HostTensor out(output, is_reached, where);
    std::optional<HostTensor> in;
    if (!is_in_place(call.op)) in.emplace(input, is_reached, where);
    do_collective(reached, out, in ? *in : out, where);
    if (call.op != CollectiveOp::reduce || is_root) out.put_back(where);
  });
}

void Communicator::all_reduce(const Tensor& tensor, ReduceOp op, Where where) {
  check_target("all_reduce", tensor, where);
  check_reducible("all_reduce", tensor.dtype(), op, where);
  run(call_of(CollectiveOp::all_reduce, tensor, op), tensor, tensor, where);
}

void Communicator::reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op,
                                  Where where) {
  check_parts("reduce_scatter", input, output, *this, where);
  output.check_writable("reduce_scatter", where);
  check_reducible("reduce_scatter", input.dtype(), op, where);
  run(call_of(CollectiveOp::reduce_scatter, input, op), output, input, where);
}

void Communicator::all_gather(const Tensor& output, const Tensor& input, Where where) {
  check_parts("all_gather", output, input, *this, where);
  output.check_writable("all_gather", where);
  run(call_of(CollectiveOp::all_gather, output), output, input, where);
}

void Communicator::broadcast(const Tensor& tensor, int root, Where where) {
  check_target("broadcast", tensor, where);
  check_root("broadcast", root, world_size_, where);
  run(call_of(CollectiveOp::broadcast, tensor, ReduceOp::sum, root), tensor, tensor, where);
}

void Communicator::reduce(const Tensor& tensor, int root, ReduceOp op, Where where) {
  check_target("reduce", tensor, where);
  check_reducible("reduce", tensor.dtype(), op, where);
  check_root("reduce", root, world_size_, where);
  run(call_of(CollectiveOp::reduce, tensor, op, root), tensor, tensor, where);
}

void Communicator::all_to_all(const Tensor& output, const Tensor& input, Where where) {
  check_exchange(output, input, world_size_, where);
  run(call_of(CollectiveOp::all_to_all, input), output, input, where);
}

// The members of each color, in the order of their keys.
std::unique_ptr<Communicator> Communicator::split(int color, int key, Where where) {
  const OneCall one(*this, "split", where);
  if (fault_injection_ && one.is_outermost()) [[unlikely]]
    fault_injection_->call();
  return one.run("split", [&] {
    const Options numbers{.dtype = DType::int64, .device = Device()};
    const Tensor own = empty({2}, numbers, where), all = empty({world_size_, 2}, numbers, where);
    own.data<std::int64_t>()[0] = color;
    own.data<std::int64_t>()[1] = key;
    const CollectiveCall call = call_of(CollectiveOp::all_gather, all);
    record(call, where, [&] { do_collective(call, all, own, where); });
    const int number = num_splits_++;
    const std::int64_t* colors_and_keys = all.data<std::int64_t>();
    std::vector<int> ranks;
    for (int r = 0; r < world_size_; ++r)
      if (color >= 0 && colors_and_keys[2 * r] == color) ranks.push_back(r);
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
      return colors_and_keys[2 * a + 1] < colors_and_keys[2 * b + 1];
    });
    return do_split(ranks, concat(group_, ".split", number, '_', color), where);
  });
}

std::unique_ptr<Communicator> Communicator::shrink(Where where) {
  const OneCall one(*this, "shrink", where);
  RINGRAD_CHECK(failed_rank() >= 0, CollectiveError, where,
                "shrink: the group must have failed; got a whole group");
  RINGRAD_CHECK(!has_shrunk_, CollectiveError, where,
                "shrink: a group shrinks once; got a second call, shrink the smaller group");
  auto smaller = do_shrink(where);
  has_shrunk_ = true;
  return smaller;
}

std::unique_ptr<Communicator> Communicator::do_shrink(Where where) {
  throw CollectiveError("shrink: this backend cannot continue with fewer ranks; join a new group",
                        where);
}

void Communicator::abort(const std::string& reason) noexcept {
  if (in_own_process_) do_abort(reason);
}

Tensor Communicator::empty_shared(const Shape& shape, const Options& options, Where where) {
  return empty(shape, options, where);
}

std::optional<CostModel> Communicator::links(const Device& device, Where where) {
  std::optional<CostModel> costs;
  perform({.op = CollectiveOp::links, .device = device.type}, where,
          [&] { costs = do_links(device, where); });
  return costs;
}

void Communicator::barrier(Where where) { meet_for({}, where); }

void Communicator::meet_for(const CollectiveCall& call, Where where) {
  perform(call, where, [&] { do_meet(call, where); });
}

void Communicator::send(const Tensor& tensor, int to, Where where) {
  check_tensor("send", tensor, where);
  RINGRAD_CHECK(to >= 0 && to < world_size_ && to != rank_, ValueError, where,
                "send: the receiver must be another rank in [0, ", world_size_, "); got ", to,
                " on rank ", rank_, " of the group");
  perform(call_of(CollectiveOp::send, tensor, ReduceOp::sum, to), where,
          [&] { do_send(HostTensor(tensor, reaches(tensor.device()), where), to, where); });
}

void Communicator::recv(const Tensor& tensor, int from, Where where) {
  check_target("recv", tensor, where);
  RINGRAD_CHECK(from >= 0 && from < world_size_ && from != rank_, ValueError, where,
                "recv: the sender must be another rank in [0, ", world_size_, "); got ", from,
                " on rank ", rank_, " of the group");
  perform(call_of(CollectiveOp::recv, tensor, ReduceOp::sum, from), where, [&] {
    mark_changed(tensor, where);
    const HostTensor reached(tensor, reaches(tensor.device()), where);
    do_recv(reached, from, where);
    reached.put_back(where);
  });
}

}  // namespace ringrad
