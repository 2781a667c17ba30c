#include "ringrad/parallel/comm/network/join_group.h"

#include <utility>

#include "ringrad/parallel/comm/host/process_group.h"
#include "ringrad/parallel/comm/job/job_store.h"
#include "ringrad/parallel/comm/network/gloo_group.h"
#include "ringrad/parallel/comm/network/hierarchical_group.h"
#include "ringrad/parallel/comm/network/mpi_group.h"

namespace ringrad {
namespace {

struct Backend {
  const char* name;
  std::unique_ptr<Communicator> (*join)(const GroupOptions& options, Where where);
};

// A backend's options, with these as their common part.
template <class Options>
Options extended(const GroupOptions& options) {
  Options all;
  static_cast<GroupOptions&>(all) = options;
  return all;
}

// The options of the network below a hierarchical group.
TransportOptions below(const GroupOptions& options) {
  TransportOptions network = extended<TransportOptions>(options);
  if (network.deadline < std::chrono::nanoseconds::max() - kNetworkPatience)
    network.deadline += kNetworkPatience;
  return network;
}

std::unique_ptr<Communicator> by_host_over_gloo(const GroupOptions& options, Where where) {
  const auto all = extended<HierarchicalOptions>(options);
  auto network = join_gloo_group(below(options), where);
  return make_hierarchical_group(
      std::move(network), job_store(rank_environment(where), all.join_timeout, where), all, where);
}

// The store is where MPI says: mpirun tells ranks on several hosts of no address.
std::unique_ptr<Communicator> by_host_over_mpi(const GroupOptions& options, Where where) {
  MpiGroup network = join_mpi_group_with_store(below(options), where);
  return make_hierarchical_group(std::move(network.comm), network.store,
                                 extended<HierarchicalOptions>(options), where);
}

constexpr Backend kBackends[] = {
    {"processes",
     [](const GroupOptions& options, Where where) {
       return join_process_group(extended<ProcessGroupOptions>(options), where);
     }},
    {"gloo",
     [](const GroupOptions& options, Where where) {
       return join_gloo_group(extended<TransportOptions>(options), where);
     }},
    {"mpi", [](const GroupOptions& options,
               Where where) { return join_mpi_group(extended<TransportOptions>(options), where); }},
    {"hierarchical_gloo", by_host_over_gloo},
    {"hierarchical_mpi", by_host_over_mpi},
};

}  // namespace

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Backend& backend : kBackends) names.emplace_back(backend.name);
  return names;
}

std::unique_ptr<Communicator> join_group(const std::string& backend, const GroupOptions& options,
                                         Where where) {
  std::string names;
  for (const Backend& known : kBackends) {
    if (backend == known.name) return known.join(options, where);
    names += concat(names.empty() ? "" : ", ", known.name);
  }
  throw ValueError(
      concat("join_group: the backend must be one of ", names, "; got \"", backend, '"'), where);
}

}  // namespace ringrad
