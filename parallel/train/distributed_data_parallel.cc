#include "parallel/train/distributed_data_parallel.h"

#include <cstring>
#include <string>

#include "autograd/grad_mode.h"
#include "core/trace.h"
#include "kernels/copy.h"
#include "parallel/comm/chaos.h"

namespace ringrad {
namespace {

// Every parameter and buffer of the module as text: what must agree between ranks before values
// can.
std::string describe_model(const nn::Module& module) {
  std::string text;
  const auto append = [&](const std::vector<nn::NamedTensor>& tensors) {
    for (const auto& [name, tensor] : tensors)
      text += concat(name, ' ', tensor.dtype(), ' ', tensor.shape(), '\n');
  };
  append(module.named_parameters());
  append(module.named_buffers());
  return text;
}

// The first line in which two descriptions differ, from both.
std::string first_difference(const std::string& ours, const std::string& theirs) {
  std::size_t line = 0;
  for (std::size_t i = 0; i < ours.size() && i < theirs.size() && ours[i] == theirs[i]; ++i)
    if (ours[i] == '\n') line = i + 1;
  const auto line_of = [&](const std::string& text) {
    return line < text.size() ? text.substr(line, text.find('\n', line) - line) : "nothing more";
  };
  return concat('"', line_of(ours), "\" and \"", line_of(theirs), '"');
}

// Throws on every rank if one rank's description differs from rank 0's.
void check_same_model(const nn::Module& module, Communicator& comm, Where where) {
  const std::string ours = describe_model(module);
  Tensor length = full({1}, static_cast<std::int64_t>(ours.size()),
                       {.dtype = DType::int64, .device = Device()});
  comm.broadcast(length, 0, where);
  std::string reference = ours;
  reference.resize(static_cast<std::size_t>(length.item<std::int64_t>()));
  Tensor bytes = empty({length.item<std::int64_t>()}, {.dtype = DType::uint8, .device = Device()});
  if (comm.rank() == 0) std::memcpy(bytes.raw_data(), ours.data(), ours.size());
  comm.broadcast(bytes, 0, where);
  std::memcpy(reference.data(), bytes.raw_data(), reference.size());

  Tensor differing = zeros({comm.world_size()}, {.dtype = DType::int32, .device = Device()});
  differing.data<std::int32_t>()[comm.rank()] = ours != reference;
  comm.all_reduce(differing, ReduceOp::sum, where);
  std::string ranks;
  for (int rank = 0; rank < comm.world_size(); ++rank)
    if (differing.data<std::int32_t>()[rank]) ranks += concat(' ', rank);
  RINGRAD_CHECK(
      ranks.empty(), CollectiveError, where,
      "DistributedDataParallel: all ranks must hold the model of rank 0; different on rank", ranks,
      ours == reference ? std::string() : concat(", first at ", first_difference(ours, reference)));
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(nn::Module& module, Communicator& comm,
                                                 const DistributedDataParallelOptions& options,
                                                 Where where)
    : module_(module), comm_(comm), broadcasts_buffers_(options.broadcast_buffers) {
  RINGRAD_CHECK(options.bucket_bytes >= 0 && options.first_bucket_bytes >= 0, ValueError, where,
                "DistributedDataParallel: sizes of buckets must be positive, or 0 for those that "
                "fit; got ",
                options.bucket_bytes, " and ", options.first_bucket_bytes, " bytes");
  check_same_model(module, comm, where);
  reducer_ = std::make_shared<Reducer>(module, comm, options, where);
  reducer_->add_hooks();
  sync_buffers(where);
}

DistributedDataParallel::~DistributedDataParallel() = default;

DistributedDataParallel::NoSync::NoSync(DistributedDataParallel& model) : reducer_(model.reducer_) {
  reducer_->pause();
}
DistributedDataParallel::NoSync::~NoSync() { reducer_->resume(); }

Tensor DistributedDataParallel::forward(const Tensor& x, Where where) {
  const TraceSpan span("forward", "compute");
  if (module_.is_training()) chaos_step();
  reducer_->check_frozen(where);
  if (broadcasts_buffers_ && module_.is_training()) sync_buffers(where);
  return module_.forward(x, where);
}

void DistributedDataParallel::sync_buffers(Where where) {
  reducer_->wait();
  if (comm_.world_size() == 1) return;
  for (const auto& [name, buffer] : module_.named_buffers()) comm_.broadcast(buffer, 0, where);
}

bool replicas_identical(const nn::Module& module, Communicator& comm, Where where) {
  const NoGrad guard;
  Tensor identical = ones({1}, {.dtype = DType::int32, .device = Device()});
  for (const auto& [name, tensor] : module.state_dict()) {
    const Options on_host{.dtype = tensor.dtype(), .device = Device()};
    const Tensor reference = empty(tensor.shape(), on_host, where);
    kernels::copy_(reference, tensor, where);
    const Tensor own = empty(tensor.shape(), on_host, where);
    kernels::copy_(own, tensor, where);
    comm.broadcast(reference, 0, where);
    const auto bytes = static_cast<std::size_t>(tensor.numel()) * size_bytes(tensor.dtype());
    if (std::memcmp(own.raw_data(), reference.raw_data(), bytes) != 0)
      identical.data<std::int32_t>()[0] = 0;
  }
  comm.all_reduce(identical, ReduceOp::min, where);
  return identical.item<int>() == 1;
}

}  // namespace ringrad
