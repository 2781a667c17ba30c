#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"

#include <cstring>

#include "ringrad/autograd/grad_mode.h"
#include "ringrad/core/trace.h"
#include "ringrad/core/transfer.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/parallel/comm/common/call_purpose.h"
#include "ringrad/parallel/comm/record/fault_injection.h"
#include "ringrad/parallel/train/common/same_model.h"

namespace ringrad {

DistributedDataParallel::DistributedDataParallel(nn::Module& module, Communicator& comm,
                                                 const DistributedDataParallelOptions& options,
                                                 Where where)
    : module_(module), comm_(comm), broadcasts_buffers_(options.broadcast_buffers) {
  RINGRAD_CHECK(options.bucket_bytes >= 0 && options.first_bucket_bytes >= 0, ValueError, where,
                "DistributedDataParallel: sizes of buckets must be positive, or 0 for those that "
                "fit; got ",
                options.bucket_bytes, " and ", options.first_bucket_bytes, " bytes");
  check_same_model("DistributedDataParallel", module, comm, where);
  reducer_ = std::make_shared<Reducer>(module, comm, options, where);
  reducer_->add_hooks();
  sync_buffers(where);
}

Tensor DistributedDataParallel::forward(const Tensor& x, Where at) {
  const TraceSpan span("forward", "compute");
  if (module_.is_training()) fault_step();
  prepare(at);
  if (join_) join_(x, /*by_hand=*/false, at);
  return module_(x, at);
}

void DistributedDataParallel::begin_forward(const Tensor& x, Where where) {
  prepare(where);
  if (join_) join_(x, /*by_hand=*/true, where);
}

// With a Join, buffers are shared at the end of a pass, when all ranks know who has data.
void DistributedDataParallel::prepare(Where where) {
  reducer_->check_parameters(where);
  if (!broadcasts_buffers_ || join_ || reducer_->is_paused()) return;
  if (module_.is_training() && grad_enabled()) sync_buffers(where);
}

void DistributedDataParallel::sync_buffers(Where where) {
  if (comm_.world_size() == 1) return;
  const PurposeScope scope(reducer_->purpose());
  broadcast_buffers(where);
}

void DistributedDataParallel::broadcast_buffers(Where where) const {
  ringrad::broadcast_buffers(module_, comm_, where, buffers_root_);
}

bool replicas_identical(const nn::Module& module, Communicator& comm, Where where) {
  const NoGradGuard guard;
  Tensor identical = ones({1}, {.dtype = DType::int32, .device = Device()});
  for (const auto& [name, tensor] : module.state_dict()) {
    const Tensor own = to_host(kernels::contiguous(tensor, where), where),
                 reference = kernels::clone(own, where);
    comm.broadcast(reference, 0, where);
    const auto bytes = static_cast<std::size_t>(tensor.numel()) * size_bytes(tensor.dtype());
    if (bytes > 0 && std::memcmp(own.raw_data(), reference.raw_data(), bytes) != 0)
      identical.data<std::int32_t>()[0] = 0;
  }
  comm.all_reduce(identical, ReduceOp::min, where);
  return identical.item<int>() == 1;
}

}  // namespace ringrad
