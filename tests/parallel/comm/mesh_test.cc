// Every mesh of 1 to 3 axes over a few ranks, compared with its definition; the axes that it
// refuses; and how a mesh ends.

#include "ringrad/parallel/comm/mesh.h"

#include <gtest/gtest.h>

#include <csignal>
#include <sstream>

#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;
using Axes = std::vector<MeshAxis>;

// All ways to write n as a product of `count` factors, in order.
std::vector<std::vector<int>> products(int n, int count) {
  if (count == 1) return {{n}};
  std::vector<std::vector<int>> all;
  for (int first = 1; first <= n; ++first)
    if (n % first == 0)
      for (std::vector<int> rest : products(n / first, count - 1)) {
        rest.insert(rest.begin(), first);
        all.push_back(rest);
      }
  return all;
}

std::vector<Axes> meshes_of(int world_size) {
  std::vector<Axes> all;
  for (int count = 1; count <= 3; ++count)
    for (const std::vector<int>& sizes : products(world_size, count)) {
      Axes axes;
      for (const int size : sizes) axes.push_back({"axis" + std::to_string(axes.size()), size});
      all.push_back(axes);
    }
  return all;
}

// The ranks of a group, as ranks of the whole group, in the group's order.
std::vector<int> members(Communicator& group, int rank) {
  const Options numbers{.dtype = DType::int32, .device = Device()};
  const Tensor all = empty({group.world_size()}, numbers);
  group.all_gather(all, full({1}, rank, numbers));
  return all.to_vector<int>();
}

// The ranks whose coordinates equal this rank's, except along the given axes.
std::vector<int> expected_members(const Mesh& mesh, const std::vector<std::size_t>& free) {
  std::vector<int> ranks;
  for (int other = 0; other < mesh.world().world_size(); ++other) {
    std::vector<int> theirs = mesh.coordinates_of(other),
                     own = mesh.coordinates_of(mesh.world().rank());
    for (const std::size_t i : free) theirs[i] = own[i] = 0;
    if (theirs == own) ranks.push_back(other);
  }
  return ranks;
}

// "" if the mesh is as it should be on this rank.
std::string complaint_about(const Mesh& mesh) {
  const int rank = mesh.world().rank();
  for (std::size_t i = 0; i < mesh.axes().size(); ++i) {
    const auto& [name, size] = mesh.axes()[i];
    Communicator& group = mesh.axis(name);
    if (group.world_size() != size || mesh.size(name) != size) return name + " has another size";
    if (group.rank() != mesh.coordinate(name)) return name + " has another order";
    if (members(group, rank) != expected_members(mesh, {i})) return name + " has other ranks";
  }
  return mesh.rank_of(mesh.coordinates_of(rank)) == rank ? "" : "rank_of is not the inverse";
}

// Must be the first test, because it forks: this program has no threads yet.
TEST(MeshTest, JoinsProcesses) {
  testing::Processes processes(4, ProcessGroupOptions(), [](Communicator& comm) {
    return complaint_about(Mesh(comm, {{"data", 2}, {"pipeline", 2}}));
  });
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}

// Only ranks 1 and 2 wait for rank 3, and rank 0 waits for these two.
TEST(MeshTest, AKilledProcessEndsAllRanks) {
  testing::Processes processes(4, ProcessGroupOptions(), [](Communicator& comm) -> std::string {
    try {
      const Mesh mesh(comm, {{"data", 2}, {"pipeline", 2}});
      comm.barrier();
      if (comm.rank() == 3) raise(SIGKILL);
      for (;;)
        for (const char* axis : {"data", "pipeline"}) mesh.axis(axis).barrier();
    } catch (const CollectiveError&) {
      return "";
    }
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
  EXPECT_EQ(processes.wait(3), -SIGKILL);
}

TEST(MeshTest, AnAxisJoinsTheRanksThatDifferInItsCoordinateOnly) {
  for (const int n : {1, 2, 4, 6, 8})
    for (const Axes& axes : meshes_of(n))
      run_ranks(n, [&](Communicator& comm) {
        const Mesh mesh(comm, axes);
        EXPECT_EQ(mesh.axes(), axes);
        EXPECT_EQ(complaint_about(mesh), "") << mesh;
        comm.barrier();  // the whole group is as it was
      });
}

TEST(MeshTest, TheLastAxisVariesFastest) {
  run_ranks(6, [](Communicator& comm) {
    const Mesh mesh(comm, {{"data", 2}, {"tensor", 3}});
    EXPECT_EQ(mesh.coordinate("data"), comm.rank() / 3);
    EXPECT_EQ(mesh.coordinate("tensor"), comm.rank() % 3);
    EXPECT_EQ(mesh.coordinates_of(5), (std::vector<int>{1, 2}));
    EXPECT_EQ(mesh.rank_of({1, 0}), 3);
    EXPECT_EQ(&mesh.world(), &comm);
  });
}

TEST(MeshTest, APlaneSpansSeveralAxes) {
  run_ranks(8, [](Communicator& comm) {
    const Mesh mesh(comm, {{"data", 2}, {"pipeline", 2}, {"tensor", 2}});
    const auto plane = mesh.plane({"tensor", "data"}),
               all = mesh.plane({"data", "pipeline", "tensor"}), point = mesh.plane({});
    EXPECT_EQ(members(*plane, comm.rank()), expected_members(mesh, {0, 2}));
    EXPECT_EQ(members(*all, comm.rank()), expected_members(mesh, {0, 1, 2}));
    EXPECT_EQ(members(*point, comm.rank()), std::vector<int>{comm.rank()});
  });
}

TEST(MeshTest, PrintsItsGrid) {
  run_ranks(6, [](Communicator& comm) {
    std::ostringstream grid, line;
    grid << Mesh(comm, {{"data", 2}, {"tensor", 3}});
    line << Mesh(comm, {{"data", 6}});
    if (comm.rank() != 4) return;
    EXPECT_EQ(grid.str(),
              "mesh of data 2 x tensor 3\n"
              "  data 0:   0    1    2 \n"
              "  data 1:   3   [4]   5 ");
    EXPECT_EQ(line.str(), "mesh of data 6\n    0    1    2    3   [4]   5 ");
  });
}

// --- Errors ---

TEST(MeshTest, EveryRankSaysWhatAxesMustBe) {
  const std::pair<Axes, const char*> wrong[] = {
      {{{"data", 2}, {"tensor", 3}},
       "mesh: the axes' sizes must multiply to the world size; got 2 x 3 for 4 ranks"},
      {{{"data", 2}}, "got 2 for 4 ranks"},
      {{{"a", 2147483647}, {"b", 2147483647}, {"c", 4}}, "x 4 for 4 ranks"},
      {{}, "mesh: there must be an axis; got none"},
      {{{"data", 2}, {"data", 2}},
       "mesh: each axis must have a name of its own; got \"data\" in data 2 x data 2"},
      {{{"", 4}}, "got \"\""},
      {{{"data", 0}, {"tensor", 4}}, "an axis must have at least one rank; got data 0 x tensor 4"},
      {{{"data", -2}, {"tensor", -2}}, "got data -2 x tensor -2"}};
  for (const auto& [axes, text] : wrong)
    run_ranks(4, [&, &axes = axes, &text = text](Communicator& comm) {
      expect_throws<ValueError>([&] { Mesh(comm, axes); }, text);
      Mesh(comm, {{"data", 4}});  // the group still works
    });
}

TEST(MeshTest, RanksMustGiveTheSameAxes) {
  run_ranks(4, [](Communicator& comm) {
    const int rank = comm.rank();
    expect_throws<CollectiveError>(
        [&] {
          Mesh(comm, {{"data", rank == 0 ? 2 : 4}, {"tensor", rank == 0 ? 2 : 1}});
        },
        "mesh: all ranks must give the axes of rank 0; different on ranks 1, 2, 3");
    expect_throws<CollectiveError>(
        [&] {
          Mesh(comm, {{"data", 2}, {rank == 2 ? "pipeline" : "tensor", 2}});
        },
        rank == 2 ? "first at \"pipeline 2\" and \"tensor 2\"" : "different on rank 2");
    expect_throws<CollectiveError>(
        [&] {
          const Axes axes{{"data", 4}}, none;
          Mesh(comm, rank == 3 ? none : axes);
        },
        "different on rank 3");
    const Mesh mesh(comm, {{"data", 2}, {"tensor", 2}});
    expect_throws<CollectiveError>(
        [&] { mesh.plane({rank == 1 ? "data" : "tensor"}); },
        "mesh: all ranks must ask for the plane of rank 0; different on rank 1");
  });
}

TEST(MeshTest, WhatIsNotInItIsNamed) {
  run_ranks(4, [](Communicator& comm) {
    const Mesh mesh(comm, {{"data", 2}, {"tensor", 2}});
    const char* const text = "mesh: the axis must be one of data, tensor; got \"pipeline\"";
    expect_throws<ValueError>([&] { mesh.axis("pipeline"); }, text);
    expect_throws<ValueError>([&] { mesh.size("pipeline"); }, text);
    expect_throws<ValueError>([&] { mesh.coordinate("pipeline"); }, text);
    expect_throws<ValueError>([&] { mesh.plane({"data", "pipeline"}); }, text);
    expect_throws<ValueError>(
        [&] {
          mesh.plane({"data", "data"});
        },
        "a plane must have each axis once; got data, data");
    expect_throws<IndexError>(
        [&] {
          mesh.rank_of({0, 2});
        },
        "mesh: coordinates must lie in data 2 x tensor 2; got 0, 2");
    expect_throws<IndexError>([&] { mesh.rank_of({-1, 0}); }, "got -1, 0");
    expect_throws<IndexError>([&] { mesh.rank_of({1}); }, "got 1");
    expect_throws<IndexError>([&] { mesh.coordinates_of(4); }, "must be in [0, 4); got 4");
  });
}

// --- Failures end all ranks, without a deadline ---

const GroupOptions kPatient{.deadline = std::chrono::hours(1)};

// Every rank fails in turn, while each of the others waits on one axis or another.
TEST(MeshTest, AnExceptionOnOneRankEndsAllAndIsTheCause) {
  for (int culprit = 0; culprit < 8; ++culprit)
    expect_throws<ShapeError>(
        [&] {
          run_ranks(
              8,
              [&](Communicator& comm) {
                const Mesh mesh(comm, {{"data", 2}, {"pipeline", 2}, {"tensor", 2}});
                for (int round = 0;; ++round) {
                  if (comm.rank() == culprit && round == 5)
                    throw ShapeError("test: boom", Where::current());
                  for (const char* axis : {"data", "pipeline", "tensor"}) mesh.axis(axis).barrier();
                }
              },
              kPatient);
        },
        concat("rank ", culprit, ": test: boom"));
}

TEST(MeshTest, AbortBreaksTheWholeGroupAndAllAxes) {
  run_ranks(
      4,
      [](Communicator& comm) {
        Mesh mesh(comm, {{"data", 2}, {"tensor", 2}});
        const Tensor token = ones({1});  // tells that a rank has its mesh
        if (comm.rank() == 3) {
          for (int rank = 0; rank < 3; ++rank) comm.recv(token, rank);
          mesh.abort("out of patience");
          EXPECT_EQ(comm.failed_rank(), 3);
          return;
        }
        comm.send(token, 3);
        // Rank 0 shares no axis with rank 3.
        for (const auto& [rank, axis] : {std::pair(1, "data"), std::pair(2, "tensor")})
          if (comm.rank() == rank)
            expect_throws<CollectiveError>([&] { mesh.axis(axis).barrier(); }, "out of patience");
        expect_throws<CollectiveError>([&] { comm.barrier(); }, "out of patience");
      },
      kPatient);
}

}  // namespace
}  // namespace ringrad
