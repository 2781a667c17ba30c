#include "ringrad/benchmarks/collective_our_rank.h"

#include <algorithm>
#include <cstring>

#include "ringrad/benchmarks/empty_kernel.h"
#include "ringrad/core/transfer.h"

namespace ringrad::bench {

bool OurRank::has(const CollectiveCase& one, bool in_place) const {
  switch (one.routine) {
    case Routine::all_reduce:
    case Routine::broadcast:
    case Routine::reduce:
      return in_place;
    case Routine::all_gather:
      return true;
    case Routine::reduce_scatter:
    case Routine::all_to_all:
      return !in_place;
    case Routine::send_recv:
      break;
  }
  return !in_place && one.ranks > 1;
}

Tensor OurRank::make_tensor(std::int64_t count, DType dtype) {
  if (!in_shared_memory_) return RankEnd::make_tensor(count, dtype);
  return comm_.empty_shared({count}, {.dtype = dtype, .device = Device()});
}

std::function<void()> OurRank::prepare(const CollectiveCase& one, const Tensor& output,
                                       const Tensor& input) {
  const ReduceOp op = one.op;
  const int root = one.root;
  Communicator& comm = comm_;
  switch (one.routine) {
    case Routine::all_reduce:
      return [=, &comm] { comm.all_reduce(output, op); };
    case Routine::reduce_scatter:
      return [=, &comm] { comm.reduce_scatter(output, input, op); };
    case Routine::all_gather:
      return [=, &comm] { comm.all_gather(output, input); };
    case Routine::broadcast:
      return [=, &comm] { comm.broadcast(output, root); };
    case Routine::reduce:
      return [=, &comm] { comm.reduce(output, root, op); };
    case Routine::all_to_all:
      return [=, &comm] { comm.all_to_all(output, input); };
    case Routine::send_recv:
      break;
  }
  const int next = (comm.rank() + 1) % one.ranks,
            before = (comm.rank() + one.ranks - 1) % one.ranks;
  return [=, &comm] {  // send() copies: no rank waits for its receiver
    comm.send(input, next);
    comm.recv(output, before);
  };
}

// --- GPUs ---

namespace {

Device gpu_of(const CollectiveCase& one, int rank) {
  const int gpus = num_cuda_devices(), wanted = std::max(one.gpus, 1);
  RINGRAD_CHECK(gpus >= wanted, DeviceError, Where::current(), "collectives: there must be ",
                wanted, " GPUs; got ", gpus);
  return {DeviceType::cuda, rank % (one.gpus == 0 ? gpus : one.gpus)};
}

}  // namespace

GpuSide::GpuSide(const CollectiveCase& one, int rank)
    : device_(gpu_of(one, rank)),
      device_guard_(device_),
      stream_(device_),
      stream_guard_(stream_) {}

Tensor GpuSide::make_tensor(std::int64_t count, DType dtype) {
  return empty({count}, {.dtype = dtype, .device = device_});
}

// A thread's simulated time is that of the work it has waited for.
void GpuSide::settle() {
  for (int gpu = 0; is_cuda_simulated() && gpu < num_cuda_devices(); ++gpu)
    synchronize(Device(DeviceType::cuda, gpu));
}

double GpuSide::run(const std::function<void()>& call, int calls, double& wall) {
  stream_.synchronize();
  std::optional<Event> begin, end;
  const double start = now_seconds();
  if (is_cuda_simulated()) begin.emplace(stream_, /*timing=*/true);
  for (int i = 0; i < calls; ++i) call();
  if (is_cuda_simulated()) end.emplace(stream_, /*timing=*/true);
  stream_.synchronize();
  wall = now_seconds() - start;
  return begin ? 1e-3 * Event::milliseconds(*begin, *end) : wall;
}

void GpuSide::describe(Measured& measured) const {
  measured.is_simulated = is_cuda_simulated();
  gpu_name(device_).copy(measured.device.data(), measured.device.size() - 1);
}

// --- Limits ---

LimitRank::LimitRank(const CollectiveCase& one, int rank) : name_(one.backend) {
  if (name_ != "memcpy") gpu_.emplace(one, rank);
}

Tensor LimitRank::make_tensor(std::int64_t count, DType dtype) {
  return gpu_ ? gpu_->make_tensor(count, dtype) : RankEnd::make_tensor(count, dtype);
}

std::function<void()> LimitRank::prepare(const CollectiveCase& one, const Tensor& output,
                                         const Tensor&) {
  const auto bytes = static_cast<std::size_t>(output.numel()) * size_bytes(one.dtype);
  const Tensor from = make_tensor(output.numel(), one.dtype);
  fill_zero(from);
  if (!gpu_)
    return [=] {
      std::memcpy(output.raw_data(), from.raw_data(), bytes);
      asm volatile("" : : "r"(output.raw_data()) : "memory");  // no copy is optimised away
    };
  const Device device = gpu_->device();
  if (name_ == "launch") return [device] { launch_empty_kernel(device); };
  return [=] {
    copy_bytes(output.raw_data(), device, from.raw_data(), device, bytes, Where::current());
  };
}

double LimitRank::run(const std::function<void()>& call, int calls, double& wall) {
  return gpu_ ? gpu_->run(call, calls, wall) : RankEnd::run(call, calls, wall);
}

void LimitRank::describe(Measured& measured) const {
  if (gpu_) gpu_->describe(measured);
}

}  // namespace ringrad::bench
