#include "ringrad/parallel/plan/predict/training_splits.h"

#include <map>
#include <stdexcept>

#include "ringrad/parallel/plan/collective/require.h"
#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"
#include "ringrad/parallel/plan/predict/partition.h"

namespace ringrad {
namespace {

void check(const SplitQuestion& question) {
  require(question.devices >= 1, "predict_splits: devices must be positive; got ",
          question.devices);
  require(question.batch >= 1, "predict_splits: the batch must be positive; got ", question.batch);
  require(question.micro_batches >= 1, "predict_splits: micro-batches must be positive; got ",
          question.micro_batches);
  require(question.interleaved_stages >= 1,
          "predict_splits: stages per device must be positive; got ", question.interleaved_stages);
  require(question.memory_limit_bytes >= 0,
          "predict_splits: the memory of a device must not be negative; got ",
          question.memory_limit_bytes);
  for (const std::string& schedule : question.schedules) make_pipeline_plan(schedule, 1, 1, 1);
  TrainingSetup one_layer = question.common;
  one_layer.layers = {LayerCost()};
  predict_step(one_layer);  // checks what all splits have in common
}

class Splits {
 public:
  explicit Splits(const SplitQuestion& question) : question_(question) {}

  std::vector<TrainingSplit> all() {
    for (int pipeline = 1; pipeline <= question_.devices; ++pipeline)
      if (question_.devices % pipeline == 0) add(pipeline);
    return std::move(splits_);
  }

 private:
  const std::vector<LayerCost>& layers(std::int64_t samples) {
    auto known = layers_.find(samples);
    if (known == layers_.end()) known = layers_.emplace(samples, question_.layers(samples)).first;
    return known->second;
  }

  void add(int pipeline) {
    TrainingSplit split;
    split.data = question_.devices / pipeline;
    split.pipeline = pipeline;
    split.micro_batches = pipeline == 1 ? 1 : question_.micro_batches;
    const std::int64_t shares = std::int64_t{split.data} * split.micro_batches;
    split.samples = question_.batch / shares;
    if (question_.batch % shares != 0) {
      split.refused = "the batch must be a multiple of replicas x micro-batches; got " +
                      std::to_string(question_.batch) + " and " + std::to_string(shares);
    } else if (const std::size_t count = layers(split.samples).size();
               static_cast<std::size_t>(pipeline) > count) {
      split.refused = "a pipeline must have a layer per device; got " + std::to_string(count);
    }
    if (!split.refused.empty()) {
      splits_.push_back(std::move(split));
      return;
    }
    if (pipeline == 1) {
      predict(split, "1f1b");
      return;
    }
    for (const std::string& schedule : question_.schedules) {
      split.schedule = schedule;
      predict(split, schedule);
    }
  }

  void predict(TrainingSplit split, const std::string& schedule) {
    TrainingSetup setup = question_.common;
    setup.layers = layers(split.samples);
    setup.data = split.data;
    setup.pipeline = split.pipeline;
    setup.micro_batches = split.micro_batches;
    setup.schedule = schedule;
    setup.stages_per_device = takes_several_stages(schedule) ? question_.interleaved_stages : 1;
    try {
      setup.starts = cut(setup);
    } catch (const std::invalid_argument& error) {  // too large for memory, or too few layers
      split.refused = error.what();
    }
    if (split.refused.empty()) {
      split.prediction = predict_step(setup);
      split.starts = setup.starts;
      const std::int64_t limit = question_.memory_limit_bytes,
                         needed = split.prediction.most_memory_bytes();
      if (limit > 0 && needed > limit)
        split.refused = "a device must have enough memory; it needs " + std::to_string(needed) +
                        " of " + std::to_string(limit) + " bytes";
    }
    splits_.push_back(std::move(split));
  }

  std::vector<std::size_t> cut(const TrainingSetup& setup) const {
    const PipelinePlan plan = make_pipeline_plan(setup.schedule, setup.pipeline,
                                                 setup.stages_per_device, setup.micro_batches);
    PartitionOptions options = partition_options(plan);
    options.memory_limit_bytes = question_.memory_limit_bytes;
    options.state_per_parameter = setup.state_bytes_per_byte;
    options.link = setup.copies.value_or(setup.links.within_host);
    return optimal_partition(setup.layers, plan.num_stages, options).starts;
  }

  const SplitQuestion& question_;
  std::map<std::int64_t, std::vector<LayerCost>> layers_;  // by samples
  std::vector<TrainingSplit> splits_;
};

}  // namespace

std::vector<TrainingSplit> predict_splits(const SplitQuestion& question) {
  check(question);
  return Splits(question).all();
}

int fastest_split(const std::vector<TrainingSplit>& splits) {
  int fastest = -1;
  for (std::size_t i = 0; i < splits.size(); ++i)
    if (splits[i].refused.empty() &&
        (fastest < 0 ||
         splits[i].prediction.step_s < splits[static_cast<std::size_t>(fastest)].prediction.step_s))
      fastest = static_cast<int>(i);
  return fastest;
}

}  // namespace ringrad
