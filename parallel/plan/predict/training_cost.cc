#include "ringrad/parallel/plan/predict/training_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ringrad/parallel/plan/collective/require.h"
#include "ringrad/parallel/plan/pipeline/pipeline_check.h"
#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"
#include "ringrad/parallel/plan/predict/collective_cost.h"
#include "ringrad/parallel/plan/predict/gradient_buckets.h"
#include "ringrad/parallel/plan/predict/pipeline_cost.h"

namespace ringrad {
namespace {

// The simulation uses about 400 bytes per forward pass.
constexpr std::int64_t kMostForwardPasses = 1 << 22;

void check_layers(const TrainingSetup& setup) {
  require(!setup.layers.empty(), "predict_step: there must be a layer; got none");
  for (const LayerCost& layer : setup.layers)
    require(is_cost(layer.forward_s) && is_cost(layer.backward_input_s) &&
                is_cost(layer.backward_weight_s) && layer.parameter_bytes >= 0 &&
                layer.output_bytes >= 0 && layer.saved_bytes >= 0,
            "predict_step: no cost of a layer may be negative; got layer \"", layer.name, '"');
}

void check_devices(const TrainingSetup& setup) {
  const std::int64_t data = setup.data, pipeline = setup.pipeline, v = setup.stages_per_device,
                     m = setup.micro_batches;
  require(
      data >= 1 && pipeline >= 1 && v >= 1 && m >= 1,
      "predict_step: data, pipeline, stages per device and micro-batches must be positive; got ",
      data, ", ", pipeline, ", ", v, ", ", m);
  require(data * pipeline <= std::numeric_limits<int>::max(),
          "predict_step: there must be at most 2^31 - 1 devices; got ", data, ", ", pipeline);
  require(pipeline <= kMostForwardPasses / v / m,
          "predict_step: there must be at most 2^22 forward passes in a replica; got ", pipeline,
          ", ", v, ", ", m);
}

void check_starts(const TrainingSetup& setup) {
  const std::vector<std::size_t>& starts = setup.starts;
  const auto stages =
      static_cast<std::size_t>(setup.pipeline) * static_cast<std::size_t>(setup.stages_per_device);
  require(starts.size() == stages, "predict_step: `starts` must have a layer for every stage; got ",
          starts.size(), " for ", stages);
  for (std::size_t s = 0; s < stages; ++s)
    require(
        starts[s] < setup.layers.size() && (s == 0 ? starts[s] == 0 : starts[s] > starts[s - 1]),
        "predict_step: `starts` must begin with 0, grow, and stay below the number of layers; got ",
        starts[s], " for stage ", s, " of ", setup.layers.size(), " layers");
}

void check(const TrainingSetup& setup) {
  check_layers(setup);
  check_devices(setup);
  check_starts(setup);
  require(setup.bucket_bytes >= 0, "predict_step: the size of buckets must not be negative; got ",
          setup.bucket_bytes);
  require(!setup.contention.empty(), "predict_step: contention must be given; got none");
  for (const double factor : setup.contention)
    require(std::isfinite(factor) && factor >= 1,
            "predict_step: contention must be at least 1; got ", std::to_string(factor));
  all_reduce_seconds("ring", 1, 0, setup.links);  // checks them
  for (const double figure :
       {setup.optimizer_s_per_byte, setup.state_bytes_per_byte, setup.other_s})
    require(is_cost(figure),
            "predict_step: the optimizer's and other costs must not be negative; got ",
            std::to_string(figure));
  if (setup.copies)
    for (const double figure : {setup.copies->alpha_s, setup.copies->beta_s_per_byte})
      require(is_cost(figure), "predict_step: copies must not cost less than nothing; got ",
              std::to_string(figure));
}

// --- Neighbours --------------------------------------------------------------------------------

// The links as the replicas of one stage see them. Take blocks whose size divides both the number
// of replicas and the ranks of a host: such a block never spans two hosts.
CostModel data_links(const TrainingSetup& setup) {
  CostModel links = setup.links;
  if (setup.data * setup.pipeline > links.ranks_per_host)
    links.ranks_per_host = std::gcd(setup.data, links.ranks_per_host);
  return links;
}

// Each replica's device a sends to its own device b: over the network if any of these pairs must.
const LinkCost& pipeline_link(const TrainingSetup& setup, int a, int b) {
  const int first = std::min(a, b) * setup.data, last = (std::max(a, b) + 1) * setup.data - 1;
  const int m = setup.links.ranks_per_host;
  return first / m == last / m ? setup.links.within_host : setup.links.between_hosts;
}

// --- Computation -------------------------------------------------------------------------------

struct Stage {
  std::size_t begin, end;  // layers
};

std::vector<Stage> stages_of(const TrainingSetup& setup) {
  std::vector<Stage> stages;
  for (std::size_t s = 0; s < setup.starts.size(); ++s) {
    const bool is_last = s + 1 == setup.starts.size();
    stages.push_back({setup.starts[s], is_last ? setup.layers.size() : setup.starts[s + 1]});
  }
  return stages;
}

// The factor by which a device is slowed while `devices` in total compute.
double contention_of(const TrainingSetup& setup, std::int64_t devices) {
  const auto most = static_cast<std::int64_t>(setup.contention.size());
  return setup.contention[static_cast<std::size_t>(std::min(devices, most) - 1)];
}

template <class T>
T sum(const TrainingSetup& setup, const Stage& stage, T LayerCost::*cost) {
  T total = 0;
  for (std::size_t i = stage.begin; i < stage.end; ++i) total += setup.layers[i].*cost;
  return total;
}

PipelineCosts pipeline_costs(const TrainingSetup& setup, const PipelinePlan& plan,
                             const std::vector<Stage>& stages) {
  PipelineCosts costs{{}, {}, {}, {}, {}, {}};
  for (int devices = 1; devices <= setup.pipeline; ++devices)
    costs.contention.push_back(contention_of(setup, std::int64_t{devices} * setup.data));
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const Stage& stage = stages[s];
    costs.forward_s.push_back(sum(setup, stage, &LayerCost::forward_s));
    costs.backward_input_s.push_back(sum(setup, stage, &LayerCost::backward_input_s));
    costs.backward_weight_s.push_back(sum(setup, stage, &LayerCost::backward_weight_s));
    const int here = plan.device_of(static_cast<int>(s)),
              there = plan.device_of(static_cast<int>(s) + 1);
    const LinkCost link = setup.copies.value_or(pipeline_link(setup, here, there));
    const double seconds =
        link.alpha_s +
        static_cast<double>(setup.layers[stage.end - 1].output_bytes) * link.beta_s_per_byte;
    costs.copy_s.push_back(setup.copies ? seconds : 0);
    costs.message_s.push_back(setup.copies ? 0 : seconds);
  }
  return costs;
}

// --- Reductions --------------------------------------------------------------------------------

struct Bucket {
  double ready_s;
  double bytes;
};

// The times at which the gradients of each layer's weights are complete in a stage's last backward
// pass, from its last layer to its first; if the pass has two halves, in the second one. The layers
// share the span in proportion to their costs.
std::vector<double> completion_s(const TrainingSetup& setup, const Stage& stage, PipelineOp op,
                                 PipelineTimes::Span span) {
  const auto weight_of = [&](const LayerCost& layer) {
    return layer.backward_weight_s + (op == PipelineOp::backward ? layer.backward_input_s : 0);
  };
  std::vector<double> times;
  double done_s = 0;
  for (std::size_t i = stage.end; i > stage.begin; --i)
    times.push_back(done_s += weight_of(setup.layers[i - 1]));
  const double slowed = done_s > 0 ? (span.end_s - span.start_s) / done_s : 1;
  for (double& time : times) time = span.start_s + time * slowed;
  return times;
}

BucketSizes bucket_sizes(const TrainingSetup& setup, const CostModel& links, std::int64_t total) {
  if (setup.bucket_bytes > 0)
    return {std::max<std::int64_t>(setup.bucket_bytes / 4, 1), setup.bucket_bytes};
  const LinkCost& link =
      setup.data > links.ranks_per_host ? links.between_hosts : links.within_host;
  if (link.beta_s_per_byte > 0)
    return fitting_bucket_sizes(total, link.alpha_s, link.beta_s_per_byte);
  return {total, total};
}

void add_buckets(const TrainingSetup& setup, const Stage& stage, const std::vector<double>& times,
                 BucketSizes sizes, std::vector<Bucket>& buckets) {
  std::vector<ParameterPlace> places;
  std::vector<double> complete_s;
  std::int64_t offset = 0;
  for (std::size_t i = stage.begin; i < stage.end; ++i) {
    const std::int64_t bytes = setup.layers[i].parameter_bytes;
    if (bytes == 0) continue;
    places.push_back({0, offset, offset + bytes});
    complete_s.push_back(times[stage.end - 1 - i]);
    offset += bytes;
  }
  for (const BucketRange& range : make_buckets(places, sizes))
    buckets.push_back(
        {complete_s[range.begin],
         static_cast<double>(places[range.end - 1].end_bytes - places[range.begin].offset_bytes)});
}

struct Device {
  double compute_s = 0, end_s = 0;  // of the backward passes
  std::int64_t parameter_bytes = 0;
  std::vector<Bucket> buckets;
};

// The work of device d, except its reductions.
Device run_device(const TrainingSetup& setup, const PipelinePlan& plan, const PipelineTimes& times,
                  const std::vector<Stage>& stages, std::size_t d) {
  Device device;
  for (std::size_t s = d; s < stages.size(); s += plan.actions.size())
    device.parameter_bytes += sum(setup, stages[s], &LayerCost::parameter_bytes);
  const BucketSizes sizes = bucket_sizes(setup, data_links(setup), device.parameter_bytes);
  std::vector<int> backwards_left(static_cast<std::size_t>(setup.stages_per_device),
                                  plan.num_micro_batches);
  for (std::size_t i = 0; i < plan.actions[d].size(); ++i) {
    const auto& [op, stage, micro_batch] = plan.actions[d][i];
    if (!is_compute(op)) continue;
    const PipelineTimes::Span span = times.spans[d][i];
    device.compute_s += span.end_s - span.start_s;
    device.end_s = span.end_s;
    const auto s = static_cast<std::size_t>(stage);
    const bool adds_gradients = op == PipelineOp::backward || op == PipelineOp::backward_weight;
    if (adds_gradients && --backwards_left[s / plan.actions.size()] == 0 && setup.data > 1)
      add_buckets(setup, stages[s], completion_s(setup, stages[s], op, span), sizes,
                  device.buckets);
  }
  return device;
}

struct Reductions {
  double busy_s = 0, end_s = 0;
  double largest = -1;
  std::string algorithm;  // of the largest bucket
};

Reductions reduce(const TrainingSetup& setup, Device device) {
  const CostModel links = data_links(setup);
  std::stable_sort(device.buckets.begin(), device.buckets.end(),
                   [](const Bucket& a, const Bucket& b) { return a.ready_s < b.ready_s; });
  Reductions done;
  for (const Bucket& bucket : device.buckets) {
    const AllReduceChoice choice =
        fastest_all_reduce(setup.data, bucket.bytes, links, setup.all_reduces);
    const double ready_s = setup.overlap ? bucket.ready_s : device.end_s;
    done.end_s = std::max(done.end_s, ready_s) + choice.seconds;
    done.busy_s += choice.seconds;
    if (bucket.bytes > done.largest) {
      done.largest = bucket.bytes;
      done.algorithm = choice.algorithm;
    }
  }
  return done;
}

// The largest part of a step; the first among equals.
std::string bottleneck_of(const TrainingPrediction& prediction, double waits_s) {
  const std::pair<double, const char*> parts[] = {{prediction.compute_s, "computation"},
                                                  {waits_s, "bubble"},
                                                  {prediction.exposed_s, "communication"},
                                                  {prediction.optimizer_s, "optimizer"}};
  return std::max_element(std::begin(parts), std::end(parts),
                          [](const auto& a, const auto& b) { return a.first < b.first; })
      ->second;
}

std::vector<std::int64_t> memory_of(const TrainingSetup& setup, const PipelinePlan& plan,
                                    const std::vector<Stage>& stages,
                                    const std::vector<Device>& devices) {
  std::vector<std::int64_t> saved;
  for (const Stage& stage : stages) {
    const std::int64_t input = stage.begin == 0 ? 0 : setup.layers[stage.begin - 1].output_bytes;
    saved.push_back(input + sum(setup, stage, &LayerCost::saved_bytes));
  }
  std::vector<std::int64_t> bytes = peak_kept_bytes(plan, saved);
  for (std::size_t d = 0; d < bytes.size(); ++d)
    bytes[d] += std::llround((2 + setup.state_bytes_per_byte) *
                             static_cast<double>(devices[d].parameter_bytes));
  return bytes;
}

}  // namespace

std::int64_t TrainingPrediction::most_memory_bytes() const {
  return memory_bytes.empty() ? 0 : *std::max_element(memory_bytes.begin(), memory_bytes.end());
}

TrainingPrediction predict_step(const TrainingSetup& setup) {
  check(setup);
  const PipelinePlan plan = with_messages(make_pipeline_plan(
      setup.schedule, setup.pipeline, setup.stages_per_device, setup.micro_batches));
  const std::vector<Stage> stages = stages_of(setup);
  const PipelineTimes times = pipeline_times(plan, pipeline_costs(setup, plan, stages));

  TrainingPrediction prediction;
  prediction.bubble = times.bubble;
  std::vector<Device> devices;
  double waits_s = 0;
  for (std::size_t d = 0; d < plan.actions.size(); ++d) {
    devices.push_back(run_device(setup, plan, times, stages, d));
    const Device& device = devices.back();
    const Reductions reductions = reduce(setup, device);
    const double optimizer_s = contention_of(setup, std::int64_t{setup.data} * setup.pipeline) *
                               setup.optimizer_s_per_byte *
                               static_cast<double>(device.parameter_bytes);
    const double end_s = std::max(device.end_s, reductions.end_s);
    if (d > 0 && end_s + optimizer_s + setup.other_s <= prediction.step_s) continue;
    prediction.step_s = end_s + optimizer_s + setup.other_s;
    prediction.compute_s = device.compute_s;
    prediction.communication_s = reductions.busy_s;
    prediction.exposed_s = std::min(end_s - device.end_s, reductions.busy_s);
    prediction.optimizer_s = optimizer_s;
    prediction.all_reduce = reductions.algorithm;
    waits_s = device.end_s - device.compute_s;
  }
  prediction.bottleneck = bottleneck_of(prediction, waits_s);
  prediction.memory_bytes = memory_of(setup, plan, stages, devices);
  return prediction;
}

}  // namespace ringrad
