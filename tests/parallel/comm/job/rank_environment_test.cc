#include "ringrad/parallel/comm/store/rank_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "ringrad/core/trace.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

class RankEnvironmentTest : public ::testing::Test {
 protected:
  RankEnvironmentTest() {
    for (const char* name : kNames) unsetenv(name);
  }
  ~RankEnvironmentTest() override {
    for (const char* name : kNames) unsetenv(name);
  }

  static void set(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  static constexpr const char* kNames[] = {"RANK",
                                           "WORLD_SIZE",
                                           "LOCAL_RANK",
                                           "LOCAL_WORLD_SIZE",
                                           "MASTER_ADDR",
                                           "MASTER_PORT",
                                           "RINGRAD_TOKEN",
                                           "RINGRAD_LAUNCHER_SERVES_STORE",
                                           "OMPI_COMM_WORLD_RANK",
                                           "OMPI_COMM_WORLD_SIZE",
                                           "OMPI_COMM_WORLD_LOCAL_RANK",
                                           "OMPI_COMM_WORLD_LOCAL_SIZE",
                                           "PMI_RANK",
                                           "PMI_SIZE",
                                           "MPI_LOCALRANKID",
                                           "MPI_LOCALNRANKS",
                                           "SLURM_PROCID",
                                           "SLURM_NTASKS",
                                           "TORCHELASTIC_USE_AGENT_STORE",
                                           "TORCHELASTIC_RUN_ID",
                                           "SLURM_LOCALID",
                                           "SLURM_NTASKS_PER_NODE",
                                           "SLURM_STEP_NUM_NODES",
                                           "SLURM_JOB_ID"};
};

TEST_F(RankEnvironmentTest, IsOneRankWithoutALauncher) {
  const RankEnvironment job = rank_environment();
  EXPECT_EQ(job.rank, 0);
  EXPECT_EQ(job.world_size, 1);
  EXPECT_EQ(job.store.port, 0);
  EXPECT_FALSE(job.launcher_serves_store);
  EXPECT_FALSE(job.launched);
}

TEST_F(RankEnvironmentTest, ReadsWhatTorchrunAndRingrunSet) {
  set({{"RANK", "5"},
       {"WORLD_SIZE", "8"},
       {"LOCAL_RANK", "1"},
       {"LOCAL_WORLD_SIZE", "4"},
       {"MASTER_ADDR", "10.0.0.7"},
       {"MASTER_PORT", "29500"}});
  RankEnvironment job = rank_environment();
  EXPECT_TRUE(job.launched);
  EXPECT_EQ(job.rank, 5);
  EXPECT_EQ(job.world_size, 8);
  EXPECT_EQ(job.local_rank, 1);
  EXPECT_EQ(job.local_world_size, 4);
  EXPECT_EQ(job.store.host, "10.0.0.7");
  EXPECT_EQ(job.store.port, 29500);
  EXPECT_FALSE(job.launcher_serves_store);
  set({{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RUN_ID", "r"}});
  job = rank_environment();
  EXPECT_EQ(job.store.port, 29501);
  EXPECT_EQ(job.store.token, "");  // no token that could be guessed
  EXPECT_NE(job.identity.find("TORCHELASTIC_RUN_ID=r\n"), std::string::npos);
}

// A secret that the user has set does not imply that a launcher serves the store.
TEST_F(RankEnvironmentTest, ASecretSetByHandLeavesTheStoreToRank0) {
  const std::string token = make_token();
  set({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"RINGRAD_TOKEN", token}});
  EXPECT_EQ(rank_environment().store.token, token);
  EXPECT_FALSE(rank_environment().launcher_serves_store);
  set({{"RINGRAD_LAUNCHER_SERVES_STORE", "1"}});
  EXPECT_TRUE(rank_environment().launcher_serves_store);
  set({{"RINGRAD_TOKEN", "guess"}});
  expect_throws<ValueError>([] { rank_environment(); },
                            "RINGRAD_TOKEN: the job's secret must have at least 22 characters");
}

TEST_F(RankEnvironmentTest, ReadsWhatMpirunAndSrunSet) {
  set({{"SLURM_PROCID", "2"},
       {"SLURM_NTASKS", "3"},
       {"SLURM_LOCALID", "0"},
       {"SLURM_NTASKS_PER_NODE", "1"},
       {"SLURM_JOB_ID", "77"}});
  RankEnvironment job = rank_environment();
  EXPECT_EQ(job.rank, 2);
  EXPECT_EQ(job.world_size, 3);
  EXPECT_EQ(job.local_rank, 0);
  EXPECT_EQ(job.store.token, "");
  EXPECT_EQ(job.rank_variable, "SLURM_PROCID");
  EXPECT_EQ(job.local_world_size, 1);
  EXPECT_EQ(job.store.port, 29500);
  set({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  job = rank_environment();  // mpirun within a job of Slurm
  EXPECT_EQ(job.rank, 1);
  EXPECT_EQ(job.world_size, 2);
  EXPECT_EQ(job.local_rank, 1);
  EXPECT_EQ(job.rank_variable, "OMPI_COMM_WORLD_RANK");
}

// What `mpiexec.hydra -n 2 env` prints; alone, and in a job of Slurm, which numbers its helpers.
TEST_F(RankEnvironmentTest, ReadsWhatMpichsMpiexecSets) {
  set({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}});
  for (const auto& of_slurm : {false, true}) {
    if (of_slurm) set({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}});
    const RankEnvironment job = rank_environment();
    EXPECT_EQ(job.rank, 1);
    EXPECT_EQ(job.world_size, 2);
    EXPECT_EQ(job.local_rank, 0);
    EXPECT_EQ(job.local_world_size, 1);
    EXPECT_EQ(job.rank_variable, "PMI_RANK");
    EXPECT_TRUE(job.launched);
  }
}

TEST_F(RankEnvironmentTest, SrunMaySetThePmisVariablesToo) {
  set({{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}});
  set({{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "3"}, {"SLURM_LOCALID", "0"}});
  const RankEnvironment job = rank_environment();
  EXPECT_EQ(job.rank, 2);
  EXPECT_EQ(job.local_rank, 0);
  EXPECT_EQ(job.rank_variable, "SLURM_PROCID");
}

TEST_F(RankEnvironmentTest, CountsTheHostsOfSlurm) {
  set({{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "5"}});
  EXPECT_EQ(rank_environment().local_world_size, 5);
  set({{"SLURM_STEP_NUM_NODES", "2"}});
  EXPECT_EQ(rank_environment().local_world_size, 3);
}

// As for `srun -n 3` in an allocation with --ntasks-per-node=4.
TEST_F(RankEnvironmentTest, SlurmsRanksPerNodeAreAMaximum) {
  set({{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "3"}, {"SLURM_NTASKS_PER_NODE", "4"}});
  for (const auto& [num_nodes, expected] :
       {std::pair("1", 3), std::pair("2", 2), std::pair("3", 1), std::pair("4", 1)}) {
    set({{"SLURM_STEP_NUM_NODES", num_nodes}});
    EXPECT_EQ(rank_environment().local_world_size, expected) << num_nodes;
  }
  unsetenv("SLURM_STEP_NUM_NODES");
  EXPECT_EQ(rank_environment().local_world_size, 3);
  set({{"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_NTASKS_PER_NODE", "1"}});
  EXPECT_EQ(rank_environment().local_world_size, 3);
}

TEST_F(RankEnvironmentTest, RefusesWhatMakesNoSense) {
  set({{"RANK", "1"}});
  expect_throws<ValueError>([] { rank_environment(); }, "RANK: WORLD_SIZE must be set as well");
  set({{"WORLD_SIZE", "1"}});
  expect_throws<ValueError>([] { rank_environment(); },
                            "RANK: it must be below WORLD_SIZE = 1; got 1");
  for (const char* wrong : {"", "-1", "2x", " 1", "99999999999"}) {
    set({{"RANK", wrong}});
    expect_throws<ValueError>([] { rank_environment(); },
                              "RANK: it must be a number from 0; got \"");
  }
  set({{"RANK", "0"}, {"MASTER_PORT", "0"}});
  expect_throws<ValueError>([] { rank_environment(); }, "MASTER_PORT: it must be a number from 1");
}

// A process that trains as the only rank although its launcher meant several gives wrong results.
TEST_F(RankEnvironmentTest, RefusesWhatALauncherHasSetByHalves) {
  const std::pair<const char*, const char*> remains[] = {
      {"WORLD_SIZE", "RANK"},
      {"LOCAL_RANK", "RANK"},
      {"LOCAL_WORLD_SIZE", "RANK"},
      {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_RANK"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_RANK"},
      {"PMI_SIZE", "PMI_RANK"},
      {"MPI_LOCALRANKID", "PMI_RANK"},
      {"MPI_LOCALNRANKS", "PMI_RANK"},
      {"SLURM_LOCALID", "SLURM_PROCID"},
  };
  for (const auto& [set_alone, lacking] : remains) {
    set({{set_alone, "2"}});
    expect_throws<ValueError>([] { rank_environment(); },
                              concat(set_alone, ": ", lacking,
                                     " must be set as well, as launchers "
                                     "do; got ",
                                     set_alone, "=2 alone"));
    unsetenv(set_alone);
  }
  for (const char* rank : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    set({{rank, "0"}});
    expect_throws<ValueError>([] { rank_environment(); }, "must be set as well");
    unsetenv(rank);
  }
  set({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}});
  expect_throws<ValueError>([] { rank_environment(); },
                            "PMI_RANK: MPI_LOCALRANKID must be set as well; got nothing");
  unsetenv("PMI_RANK");
  unsetenv("PMI_SIZE");
  // What another launcher has set completely counts.
  set({{"WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  EXPECT_EQ(rank_environment().rank, 1);
}

// salloc and sbatch set these for every program, also one that srun does not start.
TEST_F(RankEnvironmentTest, AnAllocationOfSlurmIsNoJobOfRanks) {
  set({{"SLURM_NTASKS", "4"}, {"SLURM_NTASKS_PER_NODE", "2"}, {"SLURM_JOB_ID", "7"}});
  EXPECT_FALSE(rank_environment().launched);
}

TEST_F(RankEnvironmentTest, LocalRanksAreBelowTheirNumber) {
  set({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "1"}});
  expect_throws<ValueError>([] { rank_environment(); },
                            "LOCAL_RANK: it must be below LOCAL_WORLD_SIZE = 1; got 1");
  set({{"LOCAL_WORLD_SIZE", "3"}});
  expect_throws<ValueError>([] { rank_environment(); },
                            "LOCAL_WORLD_SIZE: it must be at most WORLD_SIZE = 2; got 3");
  unsetenv("LOCAL_RANK");
  set({{"LOCAL_WORLD_SIZE", "1"}});
  EXPECT_EQ(rank_environment().local_rank, 0);
}

// Even of a process that never joins a group.
TEST_F(RankEnvironmentTest, TracesNameTheRankThatTheLauncherHasGiven) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the variables are read when a program begins
  for (const char* variable : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    SCOPED_TRACE(variable);
    const std::string path = ::testing::TempDir() + "rank_environment_test." + variable;
    set({{"RINGRAD_TRACE", path}, {variable, "1"}});
    EXPECT_EXIT(
        {
          { const TraceSpan span("of rank 1", "compute"); }
          std::exit(0);
        },
        ::testing::ExitedWithCode(0), "");
    unsetenv("RINGRAD_TRACE");
    unsetenv(variable);
    std::ifstream file(path + ".1");
    const auto events = nlohmann::json::parse(file, nullptr, false);
    ASSERT_TRUE(events.is_array() && !events.empty());
    EXPECT_EQ(events.front()["args"]["name"], "rank 1");
    EXPECT_EQ(events.back()["pid"], 1);
  }
}

}  // namespace
}  // namespace ringrad
