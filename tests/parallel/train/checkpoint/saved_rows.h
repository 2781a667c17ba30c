// A job whose ranks each have a row of numbers, and a step, in a ShardedCheckpoint.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/core/random/random.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/nn/checkpoint/checkpoint.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/train/checkpoint/sharded_checkpoint.h"
#include "ringrad/tests/testing.h"

namespace ringrad::testing {

// A row of its own on each rank.
struct Rows {
  explicit Rows(Communicator& group, const ShardedCheckpointOptions& options = {})
      : comm(group), own(full({100}, comm.rank())), checkpoint(group, options) {
    checkpoint.add_per_rank(
        "own", {[this] {
                  on_get();
                  return nn::StateDict{{"", own}};
                },
                [this](const nn::StateDict& state, Where) { kernels::copy_(own, state.at("")); },
                [this](const nn::StateDict&, Where) { on_check(); }});
    checkpoint.add("step", step);
  }
  void expect(std::int64_t expected_step) {
    EXPECT_EQ(step, expected_step);
    expect_same_bits(own, full({100}, static_cast<double>(comm.rank() + expected_step)));
  }
  void go_to(std::int64_t new_step) {
    add_(own, full({100}, static_cast<double>(new_step - step)));
    step = new_step;
  }
  Communicator& comm;
  Tensor own;
  std::int64_t step = 0;
  std::function<void()> on_get = [] {}, on_check = [] {};
  ShardedCheckpoint checkpoint;
};

/// Saves the job of `world_size` ranks at a step.
inline void save(const std::filesystem::path& folder, std::int64_t step, int world_size = 2) {
  run_ranks(world_size, [&](Communicator& comm) {
    Rows job(comm);
    job.go_to(step);
    job.checkpoint.save(folder);
  });
}

/// The folder must hold the job of two ranks at this step.
inline void expect_step(const std::filesystem::path& folder, std::int64_t step) {
  run_ranks(2, [&](Communicator& comm) {
    Rows job(comm);
    ASSERT_TRUE(job.checkpoint.load(folder));
    job.expect(step);
  });
}

inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace ringrad::testing
