#include "ringrad/benchmarks/collective_backends.h"

#include <algorithm>
#include <optional>

#include "ringrad/benchmarks/collective_our_rank.h"
#include "ringrad/benchmarks/peers/gloo_collectives.h"
#include "ringrad/benchmarks/peers/mpi_collectives.h"
#include "ringrad/parallel/comm/gpu/nccl_communicator.h"
#include "ringrad/parallel/comm/host/process_group.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/network/gloo_group.h"
#include "ringrad/parallel/comm/network/mpi_group.h"
#include "ringrad/parallel/comm/store/rank_environment.h"
#include "ringrad/parallel/comm/store/store.h"
#include "ringrad/parallel/comm/store/store_server.h"

namespace ringrad::bench {
namespace {

using Kind = Backend::Kind;
using Ranks = Backend::Ranks;

Planner* planner_of(GroupOptions& options, Routine routine) {
  switch (routine) {
    case Routine::all_reduce:
      return &options.all_reduce;
    case Routine::reduce_scatter:
      return &options.reduce_scatter;
    case Routine::all_gather:
      return &options.all_gather;
    case Routine::broadcast:
      return &options.broadcast;
    case Routine::reduce:
      return &options.reduce;
    case Routine::all_to_all:
      return &options.all_to_all;
    case Routine::send_recv:
      break;
  }
  return nullptr;
}

// The group's options for the case: its algorithm is a plan's name or, for GPUs, a kernel's.
template <class Options>
Options options_of(const CollectiveCase& one) {
  Options options;
  options.segments = one.segments;
  options.transfers = one.transfers;
  const std::string algorithm = one.algorithm;
  Planner* planner = planner_of(options, one.routine);
  if (algorithm == "default" || planner == nullptr) return options;
  for (const auto& [name, kernel] : device_algorithms())
    if (name == algorithm) {
      options.device_all_reduce = kernel;
      options.kernel_bytes = std::max(options.kernel_bytes, static_cast<std::size_t>(one.bytes()));
      return options;
    }
  *planner = algorithm;
  return options;
}

// --- One rank, or all ranks that are threads ---

void run_thread(SharedCase& shared, Communicator& comm) {
  const CollectiveCase& one = shared.one;
  const std::string backend = one.backend;
  const int rank = comm.rank();
  if (one.pin) pin_rank(rank, one.ranks);
  if (backend_named(backend).kind == Kind::limit) {
    LimitRank end(one, rank);
    return measure(shared, rank, end);
  }
  if (backend == "threads") {
    OurRank end(comm, false);
    return measure(shared, rank, end);
  }
  GpuSide gpu(one, rank);
  if (backend == "gpus") {
    OurGpuRank end(comm, gpu);
    return measure(shared, rank, end);
  }
  const auto nccl = with_nccl(comm.split(0, rank), gpu.device());
  OurGpuRank end(*nccl, gpu);
  measure(shared, rank, end);
}

void run_threads(SharedCase& shared) {
  const auto guarded = [&](Communicator& comm) {
    try {
      run_thread(shared, comm);
    } catch (const std::exception& error) {
      shared.fail("rank " + std::to_string(comm.rank()) + ": " + error.what());
      throw;
    }
  };
  run_ranks(shared.one.ranks, guarded, options_of<GroupOptions>(shared.one));
}

void run_joined(SharedCase& shared, Communicator& comm) {
  OurRank end(comm, std::string(shared.one.backend) == "processes");
  measure(shared, comm.rank(), end);
  comm.barrier();
}

// Rank 0 serves the store, so it must be the last to end.
void run_process(SharedCase& shared, int rank) {
  const CollectiveCase& one = shared.one;
  if (one.pin) pin_rank(rank, one.ranks);
  std::optional<StoreServer> server;
  if (rank == 0) {
    server.emplace();
    shared.publish(std::to_string(server->address().port) + " " + server->address().token);
  }
  const std::string word = shared.published();
  const std::size_t space = word.find(' ');
  Store store({.host = "127.0.0.1",
               .port = std::stoi(word.substr(0, space)),
               .token = word.substr(space + 1)});
  if (std::string(one.backend) == "gloo") {
    const auto comm = join_gloo_group(store, "benchmark", rank, one.ranks);
    run_joined(shared, *comm);
  } else {
    const auto comm = join_process_group(store, "benchmark", rank, one.ranks,
                                         options_of<ProcessGroupOptions>(one));
    run_joined(shared, *comm);
  }
  shared.board.barrier(one.ranks);
}

}  // namespace

const std::vector<Backend>& backends() {
  static const std::vector<Backend> list = {
      {"threads", Kind::ours, Ranks::threads, true, "threads of one process"},
      {"processes", Kind::ours, Ranks::processes, true,
       "processes, with tensors in the memory that they share"},
      {"copied", Kind::ours, Ranks::processes, true,
       "processes with tensors elsewhere, which are copied there and back"},
      {"gpus", Kind::ours, Ranks::threads, true,
       "threads, each with a stream on a GPU; ranks share GPUs if there are too few"},
      {"nccl", Kind::ours, Ranks::threads, false,
       "the same through NCCL, each with a GPU of its own"},
      {"gloo", Kind::ours, Ranks::processes, false, "our collectives over Gloo"},
      {"mpi", Kind::ours, Ranks::mpirun, false, "our collectives over OpenMPI"},
      {"openmpi", Kind::peer, Ranks::mpirun, false, "OpenMPI itself; float32, sum"},
      {"gloo_itself", Kind::peer, Ranks::processes, false, "Gloo itself; all_reduce, float32, sum"},
      {"memcpy", Kind::limit, Ranks::threads, false,
       "every rank copies as many bytes, all at once"},
      {"device_copy", Kind::limit, Ranks::threads, false, "the same within GPUs"},
      {"launch", Kind::limit, Ranks::threads, false, "every rank launches an empty kernel"},
  };
  return list;
}

const Backend& backend_named(std::string_view name) {
  for (const Backend& backend : backends())
    if (backend.name == name) return backend;
  throw ValueError("collectives: the backend must be one of --help's; got " + std::string(name),
                   Where::current());
}

std::vector<std::string> algorithms_of(const Backend& backend, Routine routine) {
  std::vector<std::string> names = {"default"};
  if (std::string(backend.name) == "gloo_itself") return gloo_algorithms();
  if (!backend.has_plans || routine == Routine::send_recv) return names;
  for (const std::string& algorithm : algorithm_names(static_cast<Collective>(routine)))
    names.push_back(algorithm);
  if (std::string(backend.name) == "gpus" && routine == Routine::all_reduce)
    for (const auto& [kernel, _] : device_algorithms()) names.push_back(kernel);
  return names;
}

const std::vector<std::pair<std::string, DeviceAlgorithm>>& device_algorithms() {
  static const std::vector<std::pair<std::string, DeviceAlgorithm>> list = {
      {"automatic_kernel", DeviceAlgorithm::automatic},
      {"one_shot_kernel", DeviceAlgorithm::one_shot_kernel},
      {"two_shot_kernel", DeviceAlgorithm::two_shot_kernel},
      {"ring_kernel", DeviceAlgorithm::ring_kernel},
  };
  return list;
}

const std::vector<std::pair<std::string, DeviceTransfers>>& device_transfers() {
  static const std::vector<std::pair<std::string, DeviceTransfers>> list = {
      {"automatic", DeviceTransfers::automatic},
      {"copy_engines", DeviceTransfers::copy_engines},
      {"kernels", DeviceTransfers::kernels},
  };
  return list;
}

void run_part(SharedCase& shared, int rank) {
  const CollectiveCase& one = shared.one;
  const Backend& backend = backend_named(one.backend);
  const std::string name = backend.name;
  if (backend.ranks == Ranks::mpirun && one.pin) pin_rank(rank_environment().rank, one.ranks);
  if (name == "mpi") {
    const auto comm = join_mpi_group();
    run_joined(shared, *comm);
  } else if (name == "openmpi") {
    run_openmpi(shared);
  } else if (name == "gloo_itself") {
    if (one.pin) pin_rank(rank, one.ranks);
    run_gloo(shared, rank);
  } else if (backend.ranks == Ranks::threads) {
    run_threads(shared);
  } else {
    run_process(shared, rank);
  }
}

}  // namespace ringrad::bench
