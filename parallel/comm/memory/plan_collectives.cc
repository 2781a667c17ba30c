#include "ringrad/parallel/comm/memory/plan_collectives.h"

#include <memory>
#include <optional>

#include "ringrad/parallel/comm/memory/measure_links.h"

namespace ringrad {
namespace {

std::size_t bytes_of(std::int64_t count, DType dtype) {
  return static_cast<std::size_t>(count) * size_bytes(dtype);
}

}  // namespace

// A tensor's own memory if all ranks reach it, or else a copy of it, put back when the collective
// is done.
class PlanCollectives::SharedBuffer {
 public:
  enum class Copy { in, out, both };

  SharedBuffer(PlanRunner& runner, const Tensor& tensor, Copy copy, Where where)
      : runner_(runner),
        original_(tensor.raw_data()),
        bytes_(bytes_of(tensor.numel(), tensor.dtype())),
        copy_(copy),
        where_(where) {
    if (runner.is_visible(original_)) return;
    place_ = runner.allocate(bytes_, where);
    if (copy != Copy::out) runner.copy(place_.get(), original_, bytes_, where);
  }

  std::byte* data() const { return place_ ? place_.get() : original_; }

  void put_back() const {
    if (place_ && copy_ != Copy::in) runner_.copy(original_, place_.get(), bytes_, where_);
  }

 private:
  PlanRunner& runner_;
  std::byte* original_;
  std::size_t bytes_;
  Copy copy_;
  Where where_;
  std::shared_ptr<std::byte> place_;
};

void PlanCollectives::run(const Tensor& output, const Tensor& input) {
  const CollectiveCall& call = operation_.call;
  switch (call.op) {
    case CollectiveOp::all_reduce:
      if (!runner_.try_all_reduce(operation_, output.raw_data())) reduce_in_place(output, true);
      return;
    case CollectiveOp::reduce:
      return reduce_in_place(output, session_.rank() == call.peer);
    case CollectiveOp::reduce_scatter:
      return reduce_scatter(output, input);
    case CollectiveOp::all_gather:
      return all_gather(output, input);
    case CollectiveOp::broadcast:
      return broadcast(output);
    default:
      return all_to_all(output, input);
  }
}

// The ranks' plan for the call's buffer.
const PlanPrograms& PlanCollectives::programs() {
  const CollectiveCall& call = operation_.call;
  ProgramKey key{collective_of(call.op)};
  if (has_segments(key.collective)) key.segments = session_.num_segments(call.count, call.dtype);
  if (has_root(key.collective)) key.root = call.peer;
  if (session_.needs_links(key.collective)) {
    key.log_bytes = log_bytes_of(bytes_of(call.count, call.dtype));
    key.device = call.device;
    share_links(session_, runner_, operation_);
  }
  return session_.programs(key, operation_);
}

void PlanCollectives::reduce_in_place(const Tensor& tensor, bool is_result) {
  const CollectiveCall& call = operation_.call;
  const Where where = operation_.where;
  const std::int64_t count = call.count;
  const PlanPrograms& plan = programs();
  const DType carrier = runner_.carrier(call.dtype, plan);
  if (size_bytes(carrier) == size_bytes(call.dtype)) {
    const SharedBuffer place(runner_, tensor,
                             is_result ? SharedBuffer::Copy::both : SharedBuffer::Copy::in, where);
    runner_.run(plan, operation_, {.buffer = place.data(), .dtype = carrier, .count = count});
    return place.put_back();
  }
  const auto wide = runner_.allocate(bytes_of(count, carrier), where);
  runner_.convert(call.dtype, tensor.raw_data(), carrier, wide.get(), count, where);
  runner_.run(plan, operation_, {.buffer = wide.get(), .dtype = carrier, .count = count});
  if (is_result) runner_.convert(carrier, wide.get(), call.dtype, tensor.raw_data(), count, where);
}

void PlanCollectives::reduce_scatter(const Tensor& output, const Tensor& input) {
  const DType dtype = input.dtype();
  const std::int64_t count = input.numel(), part = output.numel();
  const Where where = operation_.where;
  const PlanPrograms& plan = programs();
  const DType carrier = runner_.carrier(dtype, plan);
  // Partial sums need a place, and the input is the caller's: the plan runs on a copy.
  const auto work = runner_.allocate(bytes_of(count, carrier), where);
  runner_.convert(dtype, input.raw_data(), carrier, work.get(), count, where);
  runner_.run(plan, operation_, {.buffer = work.get(), .dtype = carrier, .count = count});
  const std::byte* own_part = work.get() + bytes_of(session_.rank() * part, carrier);
  runner_.convert(carrier, own_part, dtype, output.raw_data(), part, where);
}

void PlanCollectives::all_gather(const Tensor& output, const Tensor& input) {
  const DType dtype = output.dtype();
  const std::size_t part = bytes_of(input.numel(), dtype);
  const Where where = operation_.where;
  const SharedBuffer place(runner_, output, SharedBuffer::Copy::out, where);
  std::byte* own_part = place.data() + session_.rank() * part;
  if (own_part != input.raw_data()) runner_.copy(own_part, input.raw_data(), part, where);
  runner_.run(programs(), operation_,
              {.buffer = place.data(), .dtype = dtype, .count = output.numel()});
  place.put_back();
}

void PlanCollectives::broadcast(const Tensor& tensor) {
  const auto copy =
      session_.rank() == operation_.call.peer ? SharedBuffer::Copy::in : SharedBuffer::Copy::out;
  const SharedBuffer place(runner_, tensor, copy, operation_.where);
  runner_.run(programs(), operation_,
              {.buffer = place.data(), .dtype = tensor.dtype(), .count = tensor.numel()});
  place.put_back();
}

// The buffer is the output; the staging buffer holds this rank's parts for others: the input,
// unless the plan wants to write there.
void PlanCollectives::all_to_all(const Tensor& output, const Tensor& input) {
  const DType dtype = output.dtype();
  const std::size_t bytes = bytes_of(input.numel(), dtype);
  const std::size_t part = bytes / static_cast<std::size_t>(session_.world_size());
  const Where where = operation_.where;
  const PlanPrograms& plan = programs();
  const PlanProgram& program = plan.ranks[session_.rank()];
  const SharedBuffer result(runner_, output, SharedBuffer::Copy::out, where);
  std::optional<SharedBuffer> own;
  std::shared_ptr<std::byte> written;
  if (program.writes_staging) {
    written = runner_.allocate(program.num_staged * part, where);
    runner_.copy(written.get(), input.raw_data(), bytes, where);
  } else {
    own.emplace(runner_, input, SharedBuffer::Copy::in, where);
  }
  const std::size_t own_part = session_.rank() * part;
  runner_.copy(result.data() + own_part, input.raw_data() + own_part, part, where);
  runner_.run(plan, operation_,
              {.buffer = result.data(),
               .staging = own ? own->data() : written.get(),
               .dtype = dtype,
               .count = input.numel()});
  result.put_back();
}

}  // namespace ringrad
