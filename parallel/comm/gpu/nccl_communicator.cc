#include "ringrad/parallel/comm/gpu/nccl_communicator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

#include "ringrad/core/gpu/cuda_check.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/common/collective_call.h"
#include "ringrad/parallel/comm/common/unwinding.h"
#include "ringrad/parallel/comm/gather_values.h"
#include "ringrad/parallel/comm/gpu/nccl_library.h"
#include "ringrad/parallel/comm/gpu/nccl_session.h"

namespace ringrad {
namespace {

using nccl::Comm;
using nccl::DataType;
using nccl::RedOp;
using nccl::Result;

DataType type_of(DType dtype) {
  constexpr DataType kTypes[kNumDTypes] = {
      DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16,
      DataType::int32,   DataType::int64,   DataType::uint8,   /*bool_*/ DataType::uint8};
  return kTypes[static_cast<std::size_t>(dtype)];
}

RedOp op_of(ReduceOp op) {
  constexpr RedOp kOps[] = {RedOp::sum, /*mean*/ RedOp::average, RedOp::product, RedOp::min,
                            RedOp::max};
  return kOps[static_cast<std::size_t>(op)];
}

// --- What ranks tell each other through the host's group ---

// Before a failure that all ranks find in what they have gathered: each is to find it by itself,
// and none to hear of another's while it still gathers.
void let_all_see(Communicator& host, Where where) {
  try {
    host.barrier(where);
  } catch (const CollectiveError&) {  // another rank has failed meanwhile
  }
}

// What must differ from rank to rank, and what must not.
struct Introduction {
  cudaUUID_t gpu;
  int version;
};

void check_introductions(const std::vector<Introduction>& ranks, int own, const RankNames& names,
                         Device gpu, Where where) {
  const int n = static_cast<int>(ranks.size());
  for (int r = 0; r < n; ++r)
    RINGRAD_CHECK(ranks[r].version == ranks[own].version, CollectiveError, where,
                  "nccl: all ranks must have the same version; got ",
                  nccl::version_name(ranks[own].version), " on rank ", names(own), " and ",
                  nccl::version_name(ranks[r].version), " on rank ", names(r));
  const char* shared = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  if (ranks[own].version >= nccl::version_code(2, 30, 0) && shared &&
      std::string_view(shared) == "1")
    return;
  for (int a = 0; a < n; ++a)
    for (int b = a + 1; b < n; ++b)
      RINGRAD_CHECK(std::memcmp(&ranks[a].gpu, &ranks[b].gpu, sizeof(cudaUUID_t)) != 0, DeviceError,
                    where, "nccl: each rank needs a GPU of its own; got the same one on ",
                    names.list(std::vector<int>{a, b}), ", and ", gpu, " on rank ", names(own));
}

nccl::UniqueId share_id(Communicator& host, const nccl::Functions& functions, Where where) {
  nccl::UniqueId id{};
  if (host.rank() == 0) {
    const Result result = functions.get_unique_id(&id);
    RINGRAD_CHECK(result == Result::success, CollectiveError, where,
                  "nccl: rank 0 must make the group's id; got ",
                  functions.get_error_string(result));
  }
  const Tensor bytes =
      empty({sizeof id.internal}, {.dtype = DType::uint8, .device = Device()}, where);
  std::memcpy(bytes.raw_data(), id.internal, sizeof id.internal);
  host.broadcast(bytes, 0, where);
  std::memcpy(id.internal, bytes.raw_data(), sizeof id.internal);
  return id;
}

std::unique_ptr<NcclSession> open_session(Communicator& host, const nccl::Library& library,
                                          Device gpu, const NcclOptions& options, Where where) {
  const DeviceGuard exists(gpu, where);
  cudaDeviceProp properties;
  RINGRAD_CUDA_CHECK(cudaGetDeviceProperties(&properties, gpu.index), where);
  const Introduction own{properties.uuid, library.version};
  const std::vector<Introduction> ranks = gather_values(host, own, where);
  try {
    check_introductions(ranks, host.rank(), host.rank_names(), gpu, where);
  } catch (const Error&) {
    let_all_see(host, where);
    throw;
  }
  const nccl::UniqueId id = share_id(host, library.functions, where);
  return std::make_unique<NcclSession>(library, id, host, gpu, options.deadline, where);
}

// --- One rank ---

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::unique_ptr<Communicator> host, std::unique_ptr<NcclSession> session,
                   const nccl::Functions& functions, Device gpu, const NcclOptions& options)
      : Communicator(host->rank(), host->world_size(), host->group() + ".nccl", host->rank_names()),
        host_(std::move(host)),
        nccl_(functions),
        gpu_(gpu),
        options_(options),
        session_(std::move(session)) {}

  ~NcclCommunicator() override {
    if (unwinding_) abort(kEndedByException);
  }

  Tensor empty_shared(const Shape& shape, const Options& options, Where where) override {
    return options.device.is_cpu() ? host_->empty_shared(shape, options, where)
                                   : empty(shape, options, where);
  }
  int failed_rank() const noexcept override { return host_->failed_rank(); }

 protected:
  void do_abort(const std::string& reason) noexcept override {
    host_->abort(reason);
    session_->abort();
  }
  void do_collective(const CollectiveCall& call, const Tensor& output, const Tensor& input,
                     Where where) override;
  void do_meet(const CollectiveCall& call, Where where) override { host_->meet_for(call, where); }
  void do_send(const Tensor& tensor, int to, Where where) override {
    host_->send(tensor, to, where);
  }
  void do_recv(const Tensor& tensor, int from, Where where) override {
    host_->recv(tensor, from, where);
  }
  bool reaches(const Device&) const override { return true; }
  std::unique_ptr<Communicator> do_split(const std::vector<int>& ranks, const std::string& name,
                                         Where where) override;
  std::unique_ptr<Communicator> do_shrink(Where where) override;

 private:
  void perform(const CollectiveCall& call, Where where, const NcclSession::Body& body);
  Result queue(const CollectiveCall& call, const Tensor& output, const Tensor& input, Comm comm,
               cudaStream_t on) const;
  Result exchange(const Tensor& output, const Tensor& input, Comm comm, cudaStream_t on) const;

  const std::unique_ptr<Communicator> host_;
  const nccl::Functions nccl_;
  const Device gpu_;
  const NcclOptions options_;
  const std::unique_ptr<NcclSession> session_;
  std::uint64_t num_calls_ = 0;
  const Unwinding unwinding_;
};

// The ranks have made the same call before NCCL is given any of it.
void NcclCommunicator::perform(const CollectiveCall& call, Where where,
                               const NcclSession::Body& body) {
  refuse_while_capturing("a collective", where);
  const Operation operation{call, rank(), ++num_calls_, where, {}, &rank_names()};
  try {
    host_->meet_for(call, where);
  } catch (const CollectiveError& error) {
    session_->abort();
    const std::string_view text =
        error.message();  // of the host's call, which has a number of its own
    throw CollectiveError(concat(operation, text.substr(text.find(": "))), where);
  }
  if (call.count > 0) session_->queue(operation, body);
}

// --- Collectives ---

void NcclCommunicator::do_collective(const CollectiveCall& call, const Tensor& output,
                                     const Tensor& input, Where where) {
  if (output.device().is_cpu() && input.device().is_cpu())
    return host_->run(call, output, input, where);
  for (const Tensor* const tensor : {&output, &input})
    RINGRAD_CHECK(tensor->device() == gpu_, DeviceError, where, name(call.op),
                  ": this rank works with ", gpu_, " and its CPU; got a tensor on ",
                  tensor->device());
  perform(call, where,
          [&](Comm comm, cudaStream_t on) { return queue(call, output, input, comm, on); });
}

Result NcclCommunicator::queue(const CollectiveCall& call, const Tensor& output,
                               const Tensor& input, Comm comm, cudaStream_t on) const {
  const void* const in = input.raw_data();
  void* const out = output.raw_data();
  const DataType type = type_of(call.dtype);
  const RedOp op = op_of(call.reduce);
  switch (call.op) {
    case CollectiveOp::all_reduce:
      return nccl_.all_reduce(in, out, call.count, type, op, comm, on);
    case CollectiveOp::reduce_scatter:
      return nccl_.reduce_scatter(in, out, output.numel(), type, op, comm, on);
    case CollectiveOp::all_gather:
      return nccl_.all_gather(in, out, input.numel(), type, comm, on);
    case CollectiveOp::broadcast:
      return nccl_.broadcast(in, out, call.count, type, call.peer, comm, on);
    case CollectiveOp::reduce:
      return nccl_.reduce(in, out, call.count, type, op, call.peer, comm, on);
    default:
      return exchange(output, input, comm, on);
  }
}

// Messages between all pairs, which NCCL carries at the same time because they are one group of its
// calls. The first failure counts, but a group that has begun is ended.
Result NcclCommunicator::exchange(const Tensor& output, const Tensor& input, Comm comm,
                                  cudaStream_t on) const {
  const std::int64_t part = input.numel() / world_size();
  const std::size_t bytes = static_cast<std::size_t>(part) * size_bytes(input.dtype());
  const DataType type = type_of(input.dtype());
  Result result = nccl_.group_start();
  const auto also = [&](Result next) {
    if (result == Result::success || result == Result::in_progress) result = next;
  };
  for (int r = 0; r < world_size(); ++r) {
    also(nccl_.send(input.raw_data() + r * bytes, part, type, r, comm, on));
    also(nccl_.recv(output.raw_data() + r * bytes, part, type, r, comm, on));
  }
  also(nccl_.group_end());
  return result;
}

// --- Other groups of the same ranks ---

std::unique_ptr<Communicator> NcclCommunicator::do_split(const std::vector<int>& ranks,
                                                         const std::string&, Where where) {
  const auto own = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
  const int color = ranks.empty() ? -1 : ranks[0];
  auto part = host_->split(color, static_cast<int>(own), where);
  return part ? with_nccl(std::move(part), gpu_, options_, where) : nullptr;
}

std::unique_ptr<Communicator> NcclCommunicator::do_shrink(Where where) {
  session_->wait_for_abort();
  return with_nccl(host_->shrink(where), gpu_, options_, where);
}

}  // namespace

std::unique_ptr<Communicator> with_nccl(std::unique_ptr<Communicator> host, Device gpu,
                                        const NcclOptions& options, Where where) {
  RINGRAD_CHECK(host != nullptr, ValueError, where, "nccl: there must be a group; got null");
  try {
    RINGRAD_CHECK(gpu.is_cuda(), DeviceError, where, "nccl: the device must be a GPU; got ", gpu);
    RINGRAD_CHECK(options.deadline.count() > 0, ValueError, where,
                  "nccl: the deadline must be positive; got ", options.deadline.count(), " ns");
    const nccl::Library library = nccl::open(options.library, where);
    auto session = open_session(*host, library, gpu, options, where);
    return std::make_unique<NcclCommunicator>(std::move(host), std::move(session),
                                              library.functions, gpu, options);
  } catch (const std::exception& error) {
    if (host) host->abort(error.what());
    throw;
  }
}

}  // namespace ringrad
