// Compares ranks that save and go on, bit by bit, with ranks that were never interrupted.

#include "ringrad/parallel/train/checkpoint/distributed_checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/random/random.h"
#include "ringrad/data/distributed_sampler.h"
#include "ringrad/data/loader.h"
#include "ringrad/data/tensor_dataset.h"
#include "ringrad/nn/checkpoint/generation.h"
#include "ringrad/nn/checkpoint/tensor_file.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/adam.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/tests/nn/checkpoint/folder.h"
#include "ringrad/tests/num_gpus.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using ringrad::testing::expect_throws;
using ringrad::testing::Folder;
using ringrad::testing::Processes;

TensorDataset points() {
  const DefaultDeviceGuard guard{Device()};
  Generator generator(3);
  return TensorDataset({randn({48, 6}, {}, generator), randint(0, 3, {48}, generator)});
}

Communicator& seeded(Communicator& comm) {
  manual_seed(static_cast<std::uint64_t>(comm.rank()) + 10);
  return comm;
}

// One rank's program with fresh objects; each rank has its own dropout.
struct Training {
  explicit Training(Communicator& group)
      : comm(seeded(group)), sampler(48, {comm.world_size(), comm.rank()}, true, 4) {
    checkpoint.add("model", net);
    checkpoint.add("optimizer", optimizer);
    checkpoint.add("random", default_generator());
    checkpoint.add("step", step);
    checkpoint.add("epoch", position.epoch);
    checkpoint.add("consumed", position.consumed);
  }

  void run(std::int64_t last_step) {
    const TensorDataset set = points();
    DataLoader loader(set, sampler, {.batch_size = 12 / comm.world_size()});
    loader.set_position(position);
    while (step < last_step)
      for (const Batch& batch : loader) {
        optimizer.zero_grad();
        const Device device = default_device();
        cross_entropy(replica(to(batch.input(), device)), to(batch.target(), device)).backward();
        optimizer.step();
        position = loader.position();
        if (++step == last_step) break;
      }
  }

  Communicator& comm;
  nn::Sequential net{nn::Linear(6, 16), nn::BatchNorm1d(16), nn::Dropout(0.2), nn::Linear(16, 3)};
  DistributedDataParallel replica{net, comm};
  nn::Adam optimizer{net.parameters()};
  DistributedSampler sampler;
  SamplerPosition position;
  std::int64_t step = 0;
  nn::Checkpoint checkpoint;
};

// All bits of a rank's state, one number per tensor.
std::vector<std::int64_t> fingerprint(const nn::StateDict& state) {
  std::vector<std::int64_t> sums;
  for (const auto& [name, tensor] : state) {
    const Tensor host = to(tensor.detach(), Device());
    std::uint64_t sum = 14695981039346656037u;
    const std::size_t count = static_cast<std::size_t>(host.numel()) * size_bytes(host.dtype());
    for (std::size_t i = 0; i < count; ++i)
      sum = (sum ^ static_cast<std::uint64_t>(host.raw_data()[i])) * 1099511628211u;
    sums.push_back(static_cast<std::int64_t>(sum));
  }
  return sums;
}

// Interrupts a run of `last_step` steps after `saved_step`: in the middle of an epoch, which has
// four.
void expect_to_go_on(Communicator& comm, const std::filesystem::path& path,
                     std::int64_t saved_step = 6, std::int64_t last_step = 10) {
  Training straight(comm);
  straight.run(last_step);
  const auto expected = fingerprint(straight.checkpoint.state());
  {
    Training first(comm);
    EXPECT_FALSE(load_checkpoint(first.checkpoint, path, comm));
    first.run(saved_step);
    save_checkpoint(first.checkpoint, path, comm);
  }
  Training second(comm);
  manual_seed(1);
  EXPECT_TRUE(load_checkpoint(second.checkpoint, path, comm));
  EXPECT_EQ(second.step, saved_step);
  EXPECT_EQ(second.position, (SamplerPosition{saved_step / 4, saved_step % 4 * 12}));
  second.run(last_step);
  // Both runs share the default generator, so its state after the run is recorded first.
  EXPECT_EQ(fingerprint(second.checkpoint.state()), expected);
}

TEST(DistributedCheckpointDeathTest, ProcessesGoOnAsIfTheyHadNotBeenInterrupted) {
  const Folder folder;
  Processes ranks(3, ProcessGroupOptions(), [&](Communicator& comm) {
    expect_to_go_on(comm, folder / "run");
    return std::string();
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.wait(rank), 0);
}

// Rank 0, whose run began later, saves and leaves.
TEST(DistributedCheckpointDeathTest, RemainingRanksMayReplaceWhatTheGroupHasSaved) {
  const Folder folder;
  const testing::Join join = [](Store& store, int rank, int world_size) {
    return join_process_group(store, "test", rank, world_size, ProcessGroupOptions());
  };
  Processes ranks(2, join, [&](Communicator& comm) {
    std::int64_t step = 1;
    nn::Checkpoint checkpoint;
    checkpoint.add("step", step);
    if (comm.rank() == 1) nn::run_generation();
    comm.barrier();
    if (comm.rank() == 0) nn::run_generation();
    save_checkpoint(checkpoint, folder / "run", comm);
    if (comm.rank() == 0) {
      comm.abort("enough");
      return std::string();
    }
    EXPECT_THROW(comm.barrier(), CollectiveError);
    const auto rest = comm.shrink();
    step = 2;
    save_checkpoint(checkpoint, folder / "run", *rest);
    step = 0;
    EXPECT_TRUE(load_checkpoint(checkpoint, folder / "run", *rest));
    EXPECT_EQ(step, 2);
    return std::string();
  });
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(ranks.wait(rank), 0);
}

TEST(DistributedCheckpointTest, RanksGoOnAsIfTheyHadNotBeenInterrupted) {
  for (const int world_size : {1, 2, 4}) {
    SCOPED_TRACE(world_size);
    const Folder folder;
    run_ranks(world_size, [&](Communicator& comm) { expect_to_go_on(comm, folder / "run"); });
    EXPECT_EQ(folder.files(), std::vector<std::string>{"run"});
  }
}

TEST(DistributedCheckpointTest, RanksOnGpusGoOnAsIfTheyHadNotBeenInterrupted) {
  if (testing::num_gpus() < 2) GTEST_SKIP() << "there are fewer than two GPUs";
  const Folder folder;
  run_ranks(2, [&](Communicator& comm) {
    const DefaultDeviceGuard guard(Device(DeviceType::cuda, comm.rank()));
    expect_to_go_on(comm, folder / "run", 2, 3);  // few steps: the simulator is slow
  });
}

// Earlier versions counted the steps of the optimizer alone.
TEST(DistributedCheckpointTest, RunsOfEarlierVersionsAreTakenUp) {
  const Folder folder;
  run_ranks(2, [&](Communicator& comm) {
    Training training(comm);
    training.run(5);
    training.replica.sync_buffers();
    save_checkpoint(training.checkpoint, folder / "run", comm);
    const auto expected = fingerprint(training.checkpoint.state());
    if (comm.rank() == 0) {
      nn::StateDict state = nn::read_tensors(folder / "run");
      EXPECT_GT(
          std::erase_if(state, [](const auto& entry) { return entry.first.ends_with(".steps"); }),
          0u);
      nn::write_tensors(folder / "run", state);
    }
    comm.barrier();
    Training second(comm);
    ASSERT_TRUE(load_checkpoint(second.checkpoint, folder / "run", comm));
    EXPECT_EQ(fingerprint(second.checkpoint.state()), expected);
  });
}

// The saved state does not depend on the number of ranks, except for random states: each rank takes
// its own, and new ranks keep theirs.
TEST(DistributedCheckpointTest, AnotherNumberOfRanksGoesOn) {
  const Folder folder;
  run_ranks(3, [&](Communicator& comm) {
    Training training(comm);
    training.run(5);
    default_generator() = Generator(100 + static_cast<std::uint64_t>(comm.rank()));
    save_checkpoint(training.checkpoint, folder / "run", comm);
  });
  for (const int world_size : {1, 2, 4, 6})
    run_ranks(world_size, [&](Communicator& comm) {
      Training training(comm);
      ASSERT_TRUE(load_checkpoint(training.checkpoint, folder / "run", comm));
      EXPECT_TRUE(replicas_identical(training.net, comm));
      EXPECT_EQ(training.position, (SamplerPosition{1, 12}));
      EXPECT_EQ(default_generator().seed(),
                comm.rank() < 3 ? 100u + comm.rank() : 10u + comm.rank());
      training.run(9);
      training.replica.sync_buffers();
      EXPECT_TRUE(replicas_identical(training.net, comm));
    });
}

// Expects the same error on every rank, and a usable group afterwards.
template <class Body>
void expect_error_on_all_ranks(Body body, std::string_view text) {
  run_ranks(3, [&](Communicator& comm) {
    try {
      body(comm);
      ADD_FAILURE() << "rank " << comm.rank() << " threw nothing";
    } catch (const DataError& error) {
      EXPECT_TRUE(error.message().starts_with("rank 0: ")) << error.message();
      EXPECT_NE(error.message().find(text), std::string::npos) << error.message();
    }
    const Tensor one = ones({1});
    comm.all_reduce(one);
    EXPECT_EQ(one.item<int>(), 3);
  });
}

TEST(DistributedCheckpointTest, AFailureOnRankZeroIsThrownOnAllRanks) {
  const Folder folder;
  expect_error_on_all_ranks(
      [&](Communicator& comm) {
        Training training(comm);
        save_checkpoint(training.checkpoint, folder / "absent" / "run", comm);
      },
      "must lie in a folder that can be opened; got \"No such file or directory\"");
  std::ofstream(folder / "damaged") << std::string(100, 'x');
  expect_error_on_all_ranks(
      [&](Communicator& comm) {
        Training training(comm);
        load_checkpoint(training.checkpoint, folder / "damaged", comm);
      },
      "must begin with its length and checksum");
  nn::Checkpoint other;
  std::int64_t step = 1;
  other.add("step", step);
  other.save(folder / "other");
  expect_error_on_all_ranks(
      [&](Communicator& comm) {
        Training training(comm);
        load_checkpoint(training.checkpoint, folder / "other", comm);
      },
      "missing: \"consumed\" \"epoch\" \"model.0.bias\"");
}

struct OwnNumber {
  explicit OwnNumber(Communicator& comm) : rank(comm.rank()) {
    checkpoint.add("step", step);
    checkpoint.add("other", {[this] {
                               if (rank == 1 && fails)
                                 throw ValueError("no state", Where::current());
                               return nn::StateDict();
                             },
                             [](const nn::StateDict&, Where) {},
                             [this](const nn::StateDict&, Where where) {
                               RINGRAD_CHECK(rank != 1, ValueError, where, "not this");
                             }});
  }
  int rank;
  bool fails = false;
  std::int64_t step = 0;
  nn::Checkpoint checkpoint;
};

TEST(DistributedCheckpointTest, WhatOneRankCannotGiveOrTakeAllRanksThrow) {
  const Folder folder;
  run_ranks(3, [&](Communicator& comm) {
    OwnNumber number(comm);
    number.step = 7;
    save_checkpoint(number.checkpoint, folder / "run", comm);
    number.step = 8;
    expect_throws<DataError>([&] { load_checkpoint(number.checkpoint, folder / "run", comm); },
                             "rank 1: not this");
    EXPECT_EQ(number.step, 8);
    number.fails = true;
    expect_throws<DataError>([&] { save_checkpoint(number.checkpoint, folder / "run", comm); },
                             "rank 1: no state");
    comm.barrier();  // the group still works
  });
}

}  // namespace
}  // namespace ringrad
