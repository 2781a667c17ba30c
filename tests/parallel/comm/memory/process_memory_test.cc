// What the processes of a group keep in shared memory: subgroups, and programs of plans.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ringrad/parallel/comm/host/process_group.h"
#include "ringrad/parallel/plan/collective/direct_plan.h"
#include "ringrad/tests/parallel/comm/backend_errors.h"
#include "ringrad/tests/parallel/comm/forked_child.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::Body;
using testing::expect_throws;
using testing::Processes;

void on_ranks(int world_size, const Body& body, const ProcessGroupOptions& options = {}) {
  Processes processes(world_size, options, body);
  for (int rank = 0; rank < world_size; ++rank)
    EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}

std::string differs(const char* what, const Tensor& actual, const std::vector<float>& expected) {
  return actual.to_vector<float>() == expected ? "" : std::string(what) + " is wrong";
}
// What they share, and the messages that were taken, go back to the heap of the whole group: 200 of
// them would need 20 MiB.
TEST(ProcessMemoryTest, SubgroupsGiveTheirMemoryBack) {
  ProcessGroupOptions options;
  options.heap_bytes = 1 << 20;
  on_ranks(
      2,
      [](Communicator& comm) -> std::string {
        const int peer = 1 - comm.rank();
        for (int i = 0; i < 200; ++i) {
          const auto part = comm.split(0), part_of_part = part->split(0);
          const Tensor x = full({10'000}, i), y = empty({10'000});
          part_of_part->send(x, peer);
          part_of_part->recv(y, peer);
          if (y.to_vector<float>() != x.to_vector<float>()) return "a wrong message";
        }
        return "";
      },
      options);
}

// Its receiver has not left, and so its group stays, however many groups come and go.
TEST(ProcessMemoryTest, AMessageOfASubgroupOutlivesItsSenderAndLaterGroups) {
  on_ranks(2, [](Communicator& comm) -> std::string {
    auto part = comm.split(0);
    if (comm.rank() == 0) {
      part->send(full({1000}, 7), 1);
      part.reset();
    }
    for (int i = 0; i < 20; ++i) {
      const auto other = comm.split(0);
      other->send(full({1000}, i), 1 - comm.rank());
      other->recv(empty({1000}), 1 - comm.rank());
    }
    if (comm.rank() == 0) return "";
    const Tensor x = empty({1000});
    part->recv(x, 0);
    return differs("the message", x, std::vector<float>(1000, 7));
  });
}

// Its rank is still in the group, and the group's memory is not used for other groups.
TEST(ProcessMemoryTest, AForkedChildThatDestroysItsCopyDoesNotLeave) {
  on_ranks(2, [](Communicator& comm) -> std::string {
    auto part = comm.split(0);
    if (comm.rank() == 1) {
      const pid_t child = fork();
      if (child == 0) {
        part.reset();
        _exit(0);
      }
      int status = -1;
      if (waitpid(child, &status, 0) != child || status != 0) return "the child has failed";
    }
    comm.barrier();
    const Tensor x = ones({1000});
    part->all_reduce(x);
    if (comm.rank() == 0) part.reset();
    for (int i = 0; i < 20; ++i) comm.split(0)->abort("enough");
    if (part && part->failed_rank() >= 0) return "the group has another one's memory";
    return differs("the sum", x, std::vector<float>(1000, 2));
  });
}

TEST(ProcessMemoryTest, AForkedChildGetsAnError) {
  on_ranks(2, [](Communicator& comm) -> std::string {
    testing::expect_forked_child_refused(comm);
    if (comm.rank() == 1) {
      const pid_t child = fork();
      if (child == 0) {
        testing::expect_contains(testing::error_of([&] { comm.empty_shared({8}); }),
                                 "it serves the process that made it");
        _exit(::testing::Test::HasFailure() ? 1 : 0);
      }
      int status = -1;
      if (waitpid(child, &status, 0) != child || status != 0) return "the child has failed";
    }
    comm.barrier();
    return "";
  });
}

// Rank 0 proves and compiles the plans; the others read their programs in its memory.
TEST(ProcessMemoryTest, ManyRanksFollowTheProgramsOfRank0) {
  constexpr int kRanks = 12;
  on_ranks(kRanks, [](Communicator& comm) -> std::string {
    for (const int count : {300, 3000, 100'000}) {
      const Tensor x = full({count}, comm.rank()), y = full({count}, comm.rank());
      comm.all_reduce(x);
      comm.broadcast(y, kRanks - 1);
      const auto whole = static_cast<std::size_t>(count);
      if (x.to_vector<float>() != std::vector<float>(whole, kRanks * (kRanks - 1) / 2))
        return "all_reduce is wrong";
      if (y.to_vector<float>() != std::vector<float>(whole, kRanks - 1))
        return "broadcast is wrong";
    }
    return "";
  });
}

// A plan of the user's own is proved on each rank, and one wrong plan ends the call for all.
TEST(ProcessMemoryTest, AWrongPlanOfOneRankIsRefused) {
  const testing::Join join = [](Store& store, int rank, int size) {
    ProcessGroupOptions options;
    options.all_reduce = [rank](int n) {
      CollectivePlan plan = two_shot_all_reduce(n);
      if (rank == 1) plan.steps.pop_back();
      return plan;
    };
    return join_process_group(store, "test", rank, size, options);
  };
  Processes processes(3, join, [](Communicator& comm) -> std::string {
    const Tensor x = comm.empty_shared({5000});
    if (comm.rank() == 1)
      expect_throws<ValueError>([&] { comm.all_reduce(x); }, "the plan 'two_shot' must be proved");
    else
      expect_throws<CollectiveError>([&] { comm.all_reduce(x); }, "got a failure of rank 1");
    return ::testing::Test::HasFailure() ? "not refused" : "";
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}
}  // namespace
}  // namespace ringrad
