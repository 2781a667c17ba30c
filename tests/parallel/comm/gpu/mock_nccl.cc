// A mock of NCCL: its functions for ranks that are threads of one process, on simulated GPUs.
//
// A launch is the work that a call, or a group of calls, puts on a rank's stream:
//
//     copy inputs to the host | arrive | wait for a word | copy results to the GPU | leave
//
// The rank that arrives last computes all ranks' results on the CPU and sets their words. So
// streams wait for each other as they do with NCCL, and an abort sets the word of its own rank
// only.
//
// As with NCCL, a communicator that does not block answers ncclInProgress; the work is on the
// stream only when ncclCommGetAsyncError has returned ncclSuccess. The mock counts violations of
// the library's rules.

#include "ringrad/tests/parallel/comm/gpu/mock_nccl.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/tests/parallel/comm/gpu/mock_nccl_state.h"

namespace ringrad::testing {
namespace {

using nccl::Comm;

thread_local int group_depth = 0;
thread_local std::vector<std::pair<Comm, Call>> grouped;

// --- On the stream ---

struct OnStream {
  std::shared_ptr<Clique> clique;
  std::shared_ptr<Launch> launch;
  bool is_stuck;
};

void arrive(void* argument) {
  const auto& [clique, launch, is_stuck] = *static_cast<OnStream*>(argument);
  const std::lock_guard lock(launch->mutex);
  if (++launch->num_arrived < clique->world_size || is_stuck) return;
  if (!compute(launch->ranks)) {
    mock().break_rule("ranks make calls that do not fit each other");
    clique->error = Result::invalid_usage;
    return;
  }
  for (std::uint64_t* word : launch->words) std::atomic_ref(*word).store(1);
}

void leave(void* argument) {
  const std::unique_ptr<OnStream> own(static_cast<OnStream*>(argument));
  const std::lock_guard lock(own->launch->mutex);
  if (++own->launch->num_left < own->clique->world_size) return;
  for (auto& parts : own->launch->ranks)
    for (Part& part : parts)
      for (std::byte* block : {part.input, part.result})
        if (block) mock().pool.give_back(block);
  for (std::uint64_t* word : own->launch->words)
    mock().pool.give_back(reinterpret_cast<std::byte*>(word));
}

Part make_part(const Call& call, int rank, int n) {
  const std::size_t bytes = call.count * size_of(call.type), all = bytes * n;
  Part part{.call = call};
  const bool reads = call.kind != Kind::recv && (call.kind != Kind::broadcast || call.peer == rank);
  const bool writes = call.kind != Kind::send && (call.kind != Kind::reduce || call.peer == rank);
  if (reads) part.input_bytes = call.kind == Kind::reduce_scatter ? all : bytes;
  if (writes) part.result_bytes = call.kind == Kind::all_gather ? all : bytes;
  if (reads) part.input = mock().pool.take(part.input_bytes, mock().runtime);
  if (writes) part.result = mock().pool.take(part.result_bytes, mock().runtime);
  return part;
}

// REQUIRES: comm.mutex is held
void launch(nccl::Communicator& comm, const std::vector<Call>& calls) {
  const MockNcclRuntime& cuda = mock().runtime;
  Clique& clique = *comm.clique;
  const MockNcclFaults faults = mock().current_faults();
  const int number = ++comm.num_calls, n = clique.world_size;
  const bool has_error = number == faults.remote_error_at_call;
  std::shared_ptr<Launch> own;
  {
    const std::lock_guard lock(clique.mutex);
    std::shared_ptr<Launch>& shared = clique.launches[number];
    if (!shared) {
      shared = std::make_shared<Launch>();
      shared->ranks.resize(n);
      for (int r = 0; r < n; ++r) {
        shared->words.push_back(reinterpret_cast<std::uint64_t*>(mock().pool.take(64, cuda)));
        std::atomic_ref(*shared->words.back()).store(0);
      }
    }
    own = shared;
  }
  std::uint64_t* word = nullptr;
  std::vector<Part> parts;
  for (const Call& call : calls) parts.push_back(make_part(call, comm.rank, n));
  {
    const std::lock_guard lock(own->mutex);
    word = own->words[comm.rank];
    own->ranks[comm.rank] = parts;
  }
  comm.launches.push_back(own);
  if (has_error) clique.error = Result::remote_error;
  const cudaStream_t stream = calls[0].stream;
  auto* const on_stream = new OnStream{comm.clique, own, has_error || number == faults.stuck_call};
  for (const Part& part : parts)
    if (part.input_bytes > 0)
      cuda.copy(comm.device, stream, part.input, part.call.in, part.input_bytes);
  cuda.call(comm.device, stream, arrive, on_stream);
  cuda.wait_for_word(comm.device, stream, word);
  for (const Part& part : parts)
    if (part.result_bytes > 0)
      cuda.copy(comm.device, stream, part.call.out, part.result, part.result_bytes);
  cuda.call(comm.device, stream, leave, on_stream);
}

// --- On the host ---

// Calls of one communicator, alone or in a group. They are deferred until the caller asks for their
// state.
Result accept(Comm comm, const std::vector<Call>& calls) {
  if (!mock().is_live(comm)) return mock().break_rule("a call after the communicator's end");
  const std::lock_guard lock(comm->mutex);
  if (!comm->is_ready) return mock().break_rule("a call before the communicator is ready");
  if (comm->is_finalized) return mock().break_rule("a call after ncclCommFinalize");
  if (!comm->deferred.empty()) return mock().break_rule("a call while another is in progress");
  const bool are_messages = calls[0].is_message();
  for (const Call& call : calls) {
    if (call.is_message() != are_messages || (!are_messages && calls.size() > 1))
      return mock().break_rule("a group of other than messages, or of several streams");
    if (call.stream != calls[0].stream) return mock().break_rule("a group on several streams");
    if (call.peer < 0 || call.peer >= comm->clique->world_size)
      return mock().break_rule("a peer that is no rank", Result::invalid_argument);
  }
  if (mock().runtime.current_device() != comm->device)
    return mock().break_rule("a call while another GPU is current");
  if (comm->rank == 0 && comm->num_calls + 1 == mock().current_faults().refused_call)
    return Result::invalid_argument;
  comm->deferred = calls;
  comm->num_looks = 0;
  return Result::in_progress;
}

Result add(Comm comm, const Call& call) {
  if (group_depth == 0) return accept(comm, {call});
  grouped.emplace_back(comm, call);
  return Result::success;
}

Result end_group() {
  if (group_depth == 0) return mock().break_rule("ncclGroupEnd without ncclGroupStart");
  if (--group_depth > 0 || grouped.empty()) return Result::success;
  std::vector<Call> calls;
  const Comm comm = grouped[0].first;
  for (const auto& [other, call] : grouped) {
    if (other != comm) return mock().break_rule("a group of several communicators");
    calls.push_back(call);
  }
  grouped.clear();
  return accept(comm, calls);
}

Result join(Comm* comm, int n, const nccl::UniqueId& id, int rank, const nccl::Config* config) {
  if (config->magic != 0xcafebeef || config->size < sizeof(nccl::Config) || config->blocking != 0)
    return mock().break_rule("a configuration other than expected", Result::invalid_argument);
  const std::string name(id.internal, sizeof id.internal);
  auto own = std::make_unique<nccl::Communicator>();
  own->rank = rank;
  own->device = mock().runtime.current_device();
  {
    const std::lock_guard lock(mock().mutex);
    own->clique = mock().cliques[name].lock();
    if (!own->clique) mock().cliques[name] = own->clique = std::make_shared<Clique>();
  }
  {
    const std::lock_guard lock(own->clique->mutex);
    own->clique->world_size = n;
    for (const int device : own->clique->devices)
      if (device == own->device && mock().current_faults().version < 23000)
        return Result::invalid_usage;
    own->clique->devices.push_back(own->device);
    ++own->clique->num_joined;
  }
  const std::lock_guard lock(mock().mutex);
  *comm = own.release();
  mock().live.insert(*comm);
  return Result::in_progress;
}

Result progress(Comm comm) {
  if (!mock().is_live(comm)) return mock().break_rule("a look at a communicator that has ended");
  const std::lock_guard lock(comm->mutex);
  if (comm->clique->error != Result::success) return comm->clique->error;
  if (!comm->is_ready) {
    if (mock().current_faults().init_never_ends) return Result::in_progress;
    const std::lock_guard clique_lock(comm->clique->mutex);
    comm->is_ready = comm->clique->num_joined == comm->clique->world_size;
    return comm->is_ready ? Result::success : Result::in_progress;
  }
  if (comm->deferred.empty()) return Result::success;
  if (++comm->num_looks < mock().current_faults().looks_per_call) return Result::in_progress;
  launch(*comm, std::exchange(comm->deferred, {}));
  return Result::success;
}

Result remove(Comm comm, bool in_order) {
  {
    const std::lock_guard lock(mock().mutex);
    if (mock().live.erase(comm) == 0) {
      ++mock().num_broken_rules;
      return Result::invalid_argument;
    }
    if (!in_order) ++mock().num_aborted;
  }
  std::unique_lock lock(comm->mutex);
  for (const auto& weak : comm->launches)
    if (const auto own = weak.lock()) {
      const std::lock_guard launch_lock(own->mutex);
      if (own->num_left < comm->clique->world_size)
        std::atomic_ref(*own->words[comm->rank]).store(1);
    }
  if (in_order && !comm->is_finalized) mock().break_rule("ncclCommDestroy before ncclCommFinalize");
  lock.unlock();
  delete comm;
  return Result::success;
}

void wait_if_told_to() {
  std::unique_lock lock(mock().mutex);
  const int configured = mock().num_configured;
  if (mock().faults.abort_waits)
    mock().changed.wait_for(lock, std::chrono::seconds(5),
                            [&] { return mock().num_configured != configured; });
}

}  // namespace
}  // namespace ringrad::testing

// --- Exported functions ---

using namespace ringrad;           // NOLINT
using namespace ringrad::testing;  // NOLINT
using nccl::Comm;

extern "C" {

void ncclOnSimulatedGpus() {}

void mock_nccl_configure(const MockNcclRuntime& runtime, const MockNcclFaults& faults) {
  const std::lock_guard lock(mock().mutex);
  mock().runtime = runtime;
  mock().faults = faults;
  ++mock().num_configured;
  mock().changed.notify_all();
}

MockNcclState mock_nccl_inspect() {
  const std::lock_guard lock(mock().mutex);
  MockNcclState state{
      static_cast<int>(mock().live.size()), mock().num_aborted, mock().num_broken_rules, {}};
  mock().rule.copy(state.rule, sizeof state.rule - 1);
  return state;
}

Result ncclGetVersion(int* version) {
  *version = mock().current_faults().version;
  return Result::success;
}
const char* ncclGetErrorString(Result result) {
  return result == Result::remote_error    ? "remote process exited or there was a network error"
         : result == Result::invalid_usage ? "invalid usage"
                                           : "invalid argument";
}
const char* ncclGetLastError(Comm) { return "said by the mock"; }

Result ncclGetUniqueId(nccl::UniqueId* id) {
  const std::lock_guard lock(mock().mutex);
  *id = {};
  const std::string text = std::to_string(++mock().num_ids);
  text.copy(id->internal, sizeof id->internal);
  return Result::success;
}
Result ncclCommInitRankConfig(Comm* comm, int n, nccl::UniqueId id, int rank,
                              nccl::Config* config) {
  return join(comm, n, id, rank, config);
}
Result ncclCommGetAsyncError(Comm comm, Result* error) {
  *error = progress(comm);
  return Result::success;
}
Result ncclCommFinalize(Comm comm) {
  if (!mock().is_live(comm)) return mock().break_rule("ncclCommFinalize after the end");
  const std::lock_guard lock(comm->mutex);
  comm->is_finalized = true;
  return Result::in_progress;
}
Result ncclCommDestroy(Comm comm) { return remove(comm, /*in_order=*/true); }
Result ncclCommAbort(Comm comm) {
  const Result result = remove(comm, /*in_order=*/false);
  wait_if_told_to();
  return result;
}
Result ncclGroupStart() {
  ++group_depth;
  return Result::success;
}
Result ncclGroupEnd() { return end_group(); }

Result ncclAllReduce(const void* in, void* out, std::size_t count, nccl::DataType type,
                     nccl::RedOp op, Comm comm, cudaStream_t stream) {
  return add(comm, {Kind::all_reduce, in, out, count, type, op, 0, stream});
}
Result ncclReduceScatter(const void* in, void* out, std::size_t count, nccl::DataType type,
                         nccl::RedOp op, Comm comm, cudaStream_t stream) {
  return add(comm, {Kind::reduce_scatter, in, out, count, type, op, 0, stream});
}
Result ncclAllGather(const void* in, void* out, std::size_t count, nccl::DataType type, Comm comm,
                     cudaStream_t stream) {
  return add(comm, {Kind::all_gather, in, out, count, type, {}, 0, stream});
}
Result ncclBroadcast(const void* in, void* out, std::size_t count, nccl::DataType type, int root,
                     Comm comm, cudaStream_t stream) {
  return add(comm, {Kind::broadcast, in, out, count, type, {}, root, stream});
}
Result ncclReduce(const void* in, void* out, std::size_t count, nccl::DataType type, nccl::RedOp op,
                  int root, Comm comm, cudaStream_t stream) {
  return add(comm, {Kind::reduce, in, out, count, type, op, root, stream});
}
Result ncclSend(const void* in, std::size_t count, nccl::DataType type, int to, Comm comm,
                cudaStream_t stream) {
  return add(comm, {Kind::send, in, nullptr, count, type, {}, to, stream});
}
Result ncclRecv(void* out, std::size_t count, nccl::DataType type, int from, Comm comm,
                cudaStream_t stream) {
  return add(comm, {Kind::recv, nullptr, out, count, type, {}, from, stream});
}

}  // extern "C"
