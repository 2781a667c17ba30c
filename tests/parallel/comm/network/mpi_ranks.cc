// The tests of the MPI backend, as each rank runs them; mpi_group_test.py starts the ranks. All
// ranks run the same tests.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "ringrad/autograd/reduce.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/parallel/comm/network/hierarchical_group.h"
#include "ringrad/parallel/comm/network/mpi_group.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/tests/parallel/comm/backend_suite.h"
#include "ringrad/tests/parallel/comm/large_calls.h"
#include "ringrad/tests/parallel/comm/patience.h"
#include "ringrad/tests/testing.h"

namespace {

bool stops_in_the_middle = false;

std::string name_of(int file) {
  std::array<char, 256> name{};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  return readlink(link.c_str(), name.data(), name.size() - 1) > 0 ? name.data() : "";
}

}  // namespace

// Replaces libc's function. If requested, stops this process once it has made its part of OpenMPI's
// shared memory, which is in the middle of MPI_Init.
extern "C" int ftruncate(int file, off_t size) noexcept {
  static const auto real = reinterpret_cast<int (*)(int, off_t)>(dlsym(RTLD_NEXT, "ftruncate"));
  const int result = real(file, size);
  const std::string name = stops_in_the_middle ? name_of(file) : "";
  if (name.find("vader_segment.") != name.npos || name.find("sm_segment.") != name.npos)
    kill(getpid(), SIGSTOP);
  return result;
}

// Replaces MPI's function: rank 1 stops where STOP_IN_MPI_INIT says, "first" or "middle". Prints
// the job's number, which OpenMPI 5 does not say: 0.
extern "C" int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const char *job = std::getenv("PMIX_NAMESPACE"), *rank = std::getenv("PMIX_RANK");
  const char* where = std::getenv("STOP_IN_MPI_INIT");
  if (job && rank && std::string(rank) == "1") {
    std::fprintf(stderr, "job %lx\n", std::strtoul(job, nullptr, 10));
    if (where && std::string(where) == "first") raise(SIGSTOP);
    stops_in_the_middle = where && std::string(where) == "middle";
  }
  return PMPI_Init_thread(argc, argv, required, provided);
}

namespace ringrad {
namespace {

using testing::error_of;
using testing::expect_contains;
using testing::expect_throws;

TEST(MpiGroupTest, DoesWhatEveryBackendDoes) {
  const auto comm = join_mpi_group();
  testing::run_backend_suite(*comm);
}

// Two ranks on each host, while there are enough ranks. The ranks of a host meet in shared memory;
// the first ranks of the hosts meet over MPI.
TEST(MpiGroupTest, GroupsByHostDoWhatEveryBackendDoes) {
  HierarchicalOptions options;
  TransportOptions network;
  network.deadline = options.deadline + kNetworkPatience;
  MpiGroup all = join_mpi_group_with_store(network);
  options.host = concat("host", all.comm->rank() / 2);
  const auto comm = make_hierarchical_group(std::move(all.comm), all.store, options);
  testing::run_backend_suite(*comm);
}

TEST(MpiGroupTest, AddsInRankOrder) {
  const auto comm = join_mpi_group();
  testing::expect_canonical_bits(*comm);
}

TEST(MpiGroupTest, CutsWhatIsTooLarge) {
  TransportOptions options;
  options.largest_piece = 300;
  const auto comm = join_mpi_group(options);
  for (const Collective collective : kAllCollectives)
    for (const DType dtype : {DType::float64, DType::float16, DType::bool_})
      testing::expect_exact(*comm, {collective, dtype, ReduceOp::max, 0, 101});
  testing::expect_messages(*comm);
}

TEST(MpiGroupTest, ALateRankIsNamed) {
  TransportOptions options;
  options.deadline = testing::kShortDeadline;
  const auto comm = join_mpi_group(options);
  if (comm->world_size() == 1) return;
  testing::expect_late_rank_named(*comm);
  expect_throws<CollectiveError>([&] { comm->shrink(); },
                                 "this backend cannot continue with fewer ranks");
  testing::expect_sum_works(*join_mpi_group());  // a new group works
}

TEST(MpiGroupTest, ADeadlineMayBeForever) {
  TransportOptions options;
  options.deadline = std::chrono::nanoseconds::max();
  testing::expect_sum_works(*join_mpi_group(options));
}

// For the script, which runs them by name: the rank that stops does not come back.

TEST(MpiGroupTest, DISABLED_AStoppedRankIsNamedByTheOthers) {
  TransportOptions options;
  options.deadline = testing::kShortDeadline;
  const auto comm = join_mpi_group(options);
  if (comm->rank() == 1) raise(SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  const std::string error = error_of([&] { comm->all_reduce(ones({8})); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, options.deadline + testing::kPatience);
  expect_contains(
      error,
      "every rank must take part; got no sign of life from rank 1, which died or was stopped");
  EXPECT_EQ(comm->failed_rank(), 1);
  if (!HasFailure()) std::fprintf(stderr, "rank %d knows\n", comm->rank());
}

TEST(MpiGroupTest, DISABLED_JoinsWithinFourSeconds) {
  TransportOptions options;
  options.join_timeout = std::chrono::seconds(4);
  join_mpi_group(options)->barrier();
}

TEST(MpiGroupTest, DISABLED_WaitsToBeKilled) {
  const auto comm = join_mpi_group();
  std::fprintf(stderr, "ready\n");
  for (;;) pause();
}

// Run by hand on two ranks: see docs/collectives.md.
TEST(MpiGroupTest, DISABLED_CountsBeyond31Bits) {
  const auto comm = join_mpi_group();
  EXPECT_EQ(testing::use_large_tensors(*comm), "");
}

TEST(MpiGroupTest, DISABLED_OneThreadAloneIsServed) {
  MPI_Init(nullptr, nullptr);
  auto comm = join_mpi_group();
  testing::expect_sum_works(*comm);
  EXPECT_FALSE(comm->serves_all_threads());
  nn::Linear net(3, 2);
  DistributedDataParallel replica(net, *comm);
  sum(replica(ones({4, 3}))).backward();
  EXPECT_FALSE(replica.summary().overlaps);
  testing::expect_close(net.bias.grad(), full({2}, 4));
  std::string error;
  std::thread([&] { error = error_of([&] { comm->barrier(); }); }).join();
  expect_contains(error,
                  "without MPI_THREAD_MULTIPLE, which MPI_Init_thread() can ask for, the thread "
                  "that initialised MPI must make all calls; got another thread");
  comm.reset();
  MPI_Finalize();
}

// A host that runs MPI itself hands over each half of its ranks, in reverse order, and exchanges
// messages of its own. The library's settings must not reach the host's communicators.
TEST(MpiGroupTest, DISABLED_AHostHandsOverAPartOfItsRanks) {
  expect_throws<ValueError>([] { join_mpi_communicator(0); }, "must call MPI_Init() first");
  int level = 0, rank = 0, size = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  int flag = 1, received = 0;
  MPI_Request request = MPI_REQUEST_NULL;  // must not match a message of the group
  MPI_Irecv(&received, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, half, &request);

  MpiGroup group = join_mpi_communicator(MPI_Comm_c2f(half));
  MpiGroup again = join_mpi_communicator(MPI_Comm_c2f(half));
  const int in_half = (size + 1 - rank % 2) / 2;
  EXPECT_EQ(group.comm->world_size(), in_half);
  EXPECT_EQ(group.comm->rank(), in_half - 1 - rank / 2);
  for (Communicator* comm : {group.comm.get(), again.comm.get()}) {
    const Tensor ranks = full({1}, rank);
    comm->all_reduce(ranks);
    EXPECT_EQ(ranks.item(), in_half * (rank % 2) + in_half * (in_half - 1));
  }
  testing::run_backend_suite(*group.comm);
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  for (MPI_Comm own : {MPI_COMM_WORLD, half}) {
    MPI_Comm_get_errhandler(own, &handler);
    EXPECT_EQ(handler, MPI_ERRORS_ARE_FATAL);
  }
  MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
  EXPECT_EQ(flag, 0);
  MPI_Cancel(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);

  expect_throws<ValueError>([] { join_mpi_communicator(MPI_Comm_c2f(MPI_COMM_NULL)); },
                            "got none that exists");
  MPI_Comm both = MPI_COMM_NULL;
  if (size == 4) {
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 == 0 ? 3 : 2, 0, &both);
    expect_throws<ValueError>([&] { join_mpi_communicator(MPI_Comm_c2f(both)); },
                              "got one between two groups");
    MPI_Comm_free(&both);
  }
  MPI_Comm_free(&half);
  testing::expect_sum_works(*group.comm);
  group.comm->barrier();
  MPI_Finalize();
  if (in_half == 1) return;  // one rank needs no MPI
  expect_throws<CollectiveError>([&] { group.comm->barrier(); },
                                 "calls must come before the program's MPI_Finalize()");
}

TEST(MpiGroupTest, DISABLED_ARankIsKilled) {
  const auto comm = join_mpi_group();
  if (comm->rank() == 1) raise(SIGKILL);
  comm->barrier();
}

}  // namespace
}  // namespace ringrad
