#include "ringrad/parallel/comm/network/mpi_group.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/network/mpi_session.h"
#include "ringrad/parallel/comm/network/mpi_transport.h"
#include "ringrad/parallel/comm/network/transport_collectives.h"
#include "ringrad/parallel/comm/store/rank_environment.h"
#include "ringrad/parallel/comm/store/store_server.h"

namespace ringrad {
namespace {

// The ranks of a communicator, and this one among them. Without a communicator, this process alone.
struct Members {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, world_size = 1;

  Members() = default;
  explicit Members(MPI_Comm of) : comm(of) {
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &world_size);
  }
};

// Where MPI and the environment see the same ranks. A process that is alone needs no MPI.
Members members_of_job(std::chrono::milliseconds limit, Where where) {
  const RankEnvironment job = rank_environment(where);
  if (!mpi::is_initialized() && std::getenv("PMIX_RANK") == nullptr &&
      std::getenv("PMI_RANK") == nullptr) {
    RINGRAD_CHECK(job.world_size == 1, ValueError, where,
                  "mpi group: ranks must be started by mpirun, or by srun with PMIx; got ",
                  job.world_size, " ranks of another launcher");
    return {};
  }
  mpi::begin_session(limit);
  mpi::check_usable(where);
  const Members all(MPI_COMM_WORLD);
  RINGRAD_CHECK(all.world_size == job.world_size && all.rank == job.rank, ValueError, where,
                "mpi group: MPI and the environment must agree; got rank ", all.rank, " of ",
                all.world_size, ", and rank ", job.rank, " of ", job.world_size);
  return all;
}

Members members_of(int handle, std::chrono::milliseconds limit, Where where) {
  RINGRAD_CHECK(mpi::is_initialized(), ValueError, where,
                "mpi group: a program that gives a communicator must call MPI_Init() first");
  mpi::check_usable(where);
  MPI_Comm const comm = MPI_Comm_f2c(handle);
  int is_between_groups = 0;
  if (comm != nullptr && comm != MPI_COMM_NULL) MPI_Comm_test_inter(comm, &is_between_groups);
  RINGRAD_CHECK(comm != nullptr && comm != MPI_COMM_NULL && is_between_groups == 0, ValueError,
                where, "mpi group: the communicator must be MPI_Comm_c2f() of one group's; got ",
                is_between_groups != 0 ? "one between two groups" : "none that exists");
  mpi::begin_session(limit);
  return Members(comm);
}

// On this machine alone, or on all its networks.
const StoreAddress& serve_store(bool is_one_host, Where where) {
  auto& server = mpi::own_server();
  if (!server)
    server = std::make_unique<StoreServer>(
        StoreAddress{is_one_host ? "127.0.0.1" : "0.0.0.0", 0, {}}, where);
  return server->address();
}

// The number of a group among those whose store this process serves.
int next_group() {
  static std::atomic<int> groups = 0;
  return groups++;
}

struct GroupStore {
  Store store;
  int group;
};

// Rank 0 serves it, and tells the others where, and the group's number.
GroupStore open_store(Transport& transport, const Members& members, TransportCall& call,
                      std::chrono::milliseconds timeout, Where where) {
  struct Host {
    char name[MPI_MAX_PROCESSOR_NAME];
    char token[64], listens_at[16];
    int port, group;
  };
  std::vector<Host> hosts(static_cast<std::size_t>(members.world_size));
  Host own{};
  const auto share = [&] {
    const auto all = gather(transport, members.rank, members.world_size,
                            std::as_bytes(std::span(&own, 1)), call);
    std::memcpy(hosts.data(), all.data(), all.size());
  };
  int length = 0;
  mpi::check(MPI_Get_processor_name(own.name, &length));
  share();
  const auto is_servers_host = [&](const Host& host) {
    return std::strcmp(host.name, hosts[0].name) == 0;
  };
  if (members.rank == 0) {
    const StoreAddress& address = serve_store(std::ranges::all_of(hosts, is_servers_host), where);
    own.port = address.port;
    own.group = next_group();
    address.token.copy(own.token, sizeof own.token - 1);
    address.host.copy(own.listens_at, sizeof own.listens_at - 1);
  }
  share();
  // The name of the server's Unix socket follows from where it listens.
  const char* const host = is_servers_host(own) ? hosts[0].listens_at : hosts[0].name;
  return {Store({host, hosts[0].port, hosts[0].token}, timeout, where), hosts[0].group};
}

std::chrono::milliseconds limit_of(const TransportOptions& options) {
  return mpi::whole_milliseconds(options.join_timeout);
}

MpiGroup join(const Members& members, const TransportOptions& options, Where where) {
  static const std::atomic<bool> broken = false;  // nothing breaks before there is a group
  const int rank = members.rank, world_size = members.world_size;
  check_options(world_size, options, where);
  mpi::note_deadline(options.deadline);
  std::unique_ptr<Transport> transport;
  std::optional<GroupStore> opened;
  try {
    TransportCall call(TransportCall::Clock::now() + options.join_timeout, broken, {});
    if (world_size > 1) {
      transport = make_mpi_transport(members.comm, call);
      opened = open_store(*transport, members, call, options.join_timeout, where);
    } else {
      opened = {Store(serve_store(true, where), options.join_timeout, where), next_group()};
    }
  } catch (const TransportError& error) {
    throw CollectiveError(concat("mpi group: ", world_size, " ranks must come within ",
                                 std::chrono::duration<double>(options.join_timeout).count(),
                                 " s; got ", error.what()),
                          where);
  }
  const std::string name = concat("mpi", opened->group);
  meet(opened->store, name, rank, world_size, options, where);
  auto comm = make_transport_communicator(opened->store, name, rank, world_size,
                                          std::move(transport), options, where);
  comm->barrier(where);  // no rank goes on before all have found each other
  return {std::move(comm), std::move(opened->store)};
}

}  // namespace

std::unique_ptr<Communicator> join_mpi_group(const TransportOptions& options, Where where) {
  return join_mpi_group_with_store(options, where).comm;
}

MpiGroup join_mpi_group_with_store(const TransportOptions& options, Where where) {
  return join(members_of_job(limit_of(options), where), options, where);
}

MpiGroup join_mpi_communicator(int handle, const TransportOptions& options, Where where) {
  return join(members_of(handle, limit_of(options), where), options, where);
}

}  // namespace ringrad
