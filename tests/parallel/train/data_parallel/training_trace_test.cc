// The trace of training: everything that takes time, each span within the one that it is part of,
// and the steps of collectives by the numbers of their plan.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "ringrad/autograd/reduce.h"
#include "ringrad/core/trace.h"
#include "ringrad/data/loader.h"
#include "ringrad/data/sampler.h"
#include "ringrad/data/tensor_dataset.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/plan/collective/ring_plan.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"

namespace ringrad {
namespace {

using nlohmann::json;

constexpr int kRanks = 2, kSteps = 3;

void train(Communicator& comm) {
  nn::Sequential net(nn::Linear(16, 64), nn::ReLU(), nn::Linear(64, 16));
  DistributedDataParallel replica(net, comm, {.overlap = Overlap::always});
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1});
  const TensorDataset dataset({ones({4 * kSteps, 16})});
  SequentialSampler sampler(dataset.size());
  DataLoader loader(dataset, sampler, {.batch_size = 4, .num_workers = 1});
  for (const Batch& batch : loader) {
    optimizer.zero_grad();
    sum(replica(batch.input())).backward();
    optimizer.step();
  }
}

class TrainingTraceTest : public ::testing::Test {
 protected:
  TrainingTraceTest() {
    const std::string path = ::testing::TempDir() + "training_trace_test.json";
    trace_to(path);
    run_ranks(kRanks, train, {.all_reduce = "ring"});
    end_trace();
    std::ifstream file(path);
    for (const json& event : json::parse(file)) {
      if (event["ph"] == "X") spans_.push_back(event);
      if (event["name"] == "process_name") groups_.insert(std::string(event["args"]["name"]));
      if (event["name"] == "thread_name")
        rows_[event["tid"]] = {event["pid"], event["args"]["name"]};
    }
  }

  std::vector<json> named(const std::string& name, int rank) const {
    std::vector<json> result;
    for (const json& span : spans_)
      if (span["name"] == name && span["pid"] == rank) result.push_back(span);
    return result;
  }
  std::string row_of(const json& span) const { return rows_.at(span["tid"]).second; }

  std::vector<json> spans_;
  std::map<int, std::pair<int, std::string>> rows_;  // by thread: its rank and its name
  std::set<std::string> groups_;
};

TEST_F(TrainingTraceTest, EveryRankHasARowForEachOfItsThreads) {
  std::set<std::pair<int, std::string>> expected;
  for (int rank = 0; rank < kRanks; ++rank)
    for (const char* name : {"compute", "communication", "loader 0"}) expected.emplace(rank, name);
  std::set<std::pair<int, std::string>> rows;
  for (const auto& [thread, row] : rows_) EXPECT_TRUE(rows.insert(row).second) << row.second;
  EXPECT_EQ(rows, expected);
  EXPECT_EQ(groups_, (std::set<std::string>{"rank 0", "rank 1"}));
}

TEST_F(TrainingTraceTest, WhatTakesTimeHasAName) {
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::map<std::string, std::string> places = {{"0 Linear(16, 64)", "compute"},
                                                       {"2 Linear(64, 16)", "compute"},
                                                       {"sum", "compute"},
                                                       {"linear", "compute"},
                                                       {"backward", "compute"},
                                                       {"forward", "compute"},
                                                       {"optimizer step", "compute"},
                                                       {"next batch", "compute"},
                                                       {"make batch", "loader 0"},
                                                       {"bucket 0", "communication"}};
    for (const auto& [name, row] : places) {
      const auto spans = named(name, rank);
      EXPECT_GE(spans.size(), static_cast<std::size_t>(kSteps)) << name;
      for (const json& span : spans) EXPECT_EQ(row_of(span), row) << name;
    }
  }
}

// Two spans of a thread are either nested or disjoint.
TEST_F(TrainingTraceTest, SpansOfAThreadNest) {
  constexpr double kRounding_us = 2e-3;
  for (const auto& [thread, row] : rows_) {
    std::vector<std::pair<double, double>>
        mine;  // begin and, negative, end: the outer of two comes first
    for (const json& span : spans_)
      if (span["tid"] == thread) {
        EXPECT_EQ(span["pid"], row.first);
        const double begin = span["ts"], duration = span["dur"];
        mine.emplace_back(begin, -(begin + duration));
      }
    std::sort(mine.begin(), mine.end());
    std::vector<double> open;
    for (const auto& [begin, negative_end] : mine) {
      while (!open.empty() && open.back() <= begin + kRounding_us) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(-negative_end, open.back() + kRounding_us) << row.second;
      }
      open.push_back(-negative_end);
    }
  }
}

bool is_within(const json& inner, const json& outer) {
  const double begin = outer["ts"], end = begin + outer["dur"].get<double>(), at = inner["ts"];
  return inner["tid"] == outer["tid"] && begin <= at && at < end;
}

TEST_F(TrainingTraceTest, StepsOfACollectiveAreThoseOfItsPlan) {
  const CollectivePlan plan = ring_all_reduce(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    std::multiset<std::string> expected, got;
    std::vector<json> reductions = named("ring", rank);
    std::erase_if(reductions, [&](const json& span) {
      return row_of(span) != "communication" ||
             !span["args"]["call"].get<std::string>().starts_with("all_reduce");
    });
    EXPECT_GE(reductions.size(), static_cast<std::size_t>(kSteps)) << "a bucket or more per step";
    for (const Step& step : plan.steps)
      if (step.rank == rank && is_receive(step.op))
        for (std::size_t i = 0; i < reductions.size(); ++i)
          expected.insert(
              json{{"step", step.step}, {"chunk", step.chunk}, {"peers", step.peers}}.dump());
    for (const json& span : spans_)
      if (span["cat"] == "step" &&
          std::any_of(reductions.begin(), reductions.end(),
                      [&](const json& reduction) { return is_within(span, reduction); }))
        got.insert(span["args"].dump());
    EXPECT_EQ(got, expected);
  }
}

}  // namespace
}  // namespace ringrad
