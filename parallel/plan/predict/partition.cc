#include "ringrad/parallel/plan/predict/partition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "ringrad/parallel/plan/collective/require.h"

namespace ringrad {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// The largest value up to which a double holds every whole number, so that sums of bytes are exact.
constexpr double kMostBytes = 9007199254740992;  // 2^53

// Prefix sums: sums[e] - sums[b] is the sum of what(layer) over [b, e).
template <class What>
std::vector<double> prefix_sums(const std::vector<LayerCost>& layers, What what) {
  std::vector<double> sums{0};
  for (const LayerCost& layer : layers) sums.push_back(sums.back() + what(layer));
  return sums;
}

// The cost of a stage with the layers [b, e).
class Model {
 public:
  Model(const std::vector<LayerCost>& layers, int num_stages, const PartitionOptions& options)
      : layers_(layers), options_(options), num_stages_(num_stages) {
    check_options();
    check_layers();
    seconds_ = prefix_sums(layers, [](const LayerCost& l) { return l.seconds(); });
    parameters_ = prefix_sums(
        layers, [](const LayerCost& l) { return static_cast<double>(l.parameter_bytes); });
    saved_ =
        prefix_sums(layers, [](const LayerCost& l) { return static_cast<double>(l.saved_bytes); });
  }

  const std::vector<LayerCost>& layers() const { return layers_; }
  const PartitionOptions& options() const { return options_; }
  std::size_t num_stages() const { return static_cast<std::size_t>(num_stages_); }
  int num_devices() const { return options_.num_devices ? options_.num_devices : num_stages_; }
  int stages_per_device() const { return num_stages_ / num_devices(); }

  double sent_bytes(std::size_t b, std::size_t e) const {
    return num_devices() > 1 ? output_bytes(b) + output_bytes(e) : 0;
  }
  double message_s(std::size_t b, std::size_t e) const {
    if (num_devices() == 1) return 0;
    const int messages = (b > 0) + (e < layers_.size());
    return messages * options_.link.alpha_s + sent_bytes(b, e) * options_.link.beta_s_per_byte;
  }
  double seconds(std::size_t b, std::size_t e) const {
    return seconds_[e] - seconds_[b] + message_s(b, e);
  }
  double memory(std::size_t stage, std::size_t b, std::size_t e) const {
    const int kept = options_.kept[std::min(stage, options_.kept.size() - 1)];
    return std::ceil((2 + options_.state_per_parameter) * (parameters_[e] - parameters_[b])) +
           kept * (saved_[e] - saved_[b] + output_bytes(b));
  }
  // True if the stage needs no more than its share of the memory limit.
  bool fits(std::size_t stage, std::size_t b, std::size_t e) const {
    const auto limit = static_cast<double>(options_.memory_limit_bytes);
    return limit == 0 || memory(stage, b, e) * stages_per_device() <= limit;
  }

 private:
  // The bytes that cross a cut before layer i: none before the first layer and after the last.
  double output_bytes(std::size_t i) const {
    return i == 0 || i == layers_.size() ? 0 : static_cast<double>(layers_[i - 1].output_bytes);
  }
  void check_options() const;
  void check_layers() const;

  const std::vector<LayerCost>& layers_;
  const PartitionOptions& options_;
  const int num_stages_;
  std::vector<double> seconds_, parameters_, saved_;
};

void Model::check_options() const {
  require(!layers_.empty(), "partition: there must be layers; got none");
  require(num_stages_ > 0, "partition: there must be stages; got ", num_stages_);
  require(options_.num_devices >= 0, "partition: num_devices must not be negative; got ",
          options_.num_devices);
  require(num_stages_ % num_devices() == 0, "partition: stages must be a multiple of devices; got ",
          num_stages_, " stages on ", num_devices(), " devices");
  require(options_.num_micro_batches > 0, "partition: num_micro_batches must be positive; got ",
          options_.num_micro_batches);
  require(!options_.kept.empty(), "partition: kept must say something of stage 0; got nothing");
  for (const int kept : options_.kept)
    require(kept > 0, "partition: a stage keeps at least one micro-batch; got kept = ", kept);
  require(options_.memory_limit_bytes >= 0,
          "partition: memory_limit_bytes must not be negative; got ", options_.memory_limit_bytes);
  require(is_cost(options_.state_per_parameter),
          "partition: state_per_parameter must not be negative; got ",
          options_.state_per_parameter);
  require(is_cost(options_.link.alpha_s) && is_cost(options_.link.beta_s_per_byte),
          "partition: alpha and beta of the link must not be negative; got ", options_.link.alpha_s,
          " and ", options_.link.beta_s_per_byte);
}

void Model::check_layers() const {
  const double kept = *std::max_element(options_.kept.begin(), options_.kept.end());
  double bytes = 0;
  for (const LayerCost& layer : layers_) {
    for (const double seconds : {layer.forward_s, layer.backward_input_s, layer.backward_weight_s})
      require(is_cost(seconds), "partition: seconds must be finite and not negative; got ", seconds,
              " of layer \"", layer.name, '"');
    for (const std::int64_t count : {layer.parameter_bytes, layer.output_bytes, layer.saved_bytes})
      require(count >= 0, "partition: bytes must not be negative; got ", count, " of layer \"",
              layer.name, '"');
    bytes += (2 + options_.state_per_parameter) * static_cast<double>(layer.parameter_bytes) +
             kept * (static_cast<double>(layer.saved_bytes) +
                     2 * static_cast<double>(layer.output_bytes));
  }
  require(bytes * stages_per_device() < kMostBytes,
          "partition: all bytes must be less than 2^53; got ", bytes);
}

// The places where a cut may be, and both ends.
std::vector<std::size_t> cut_places(const Model& model) {
  std::vector<std::size_t> places{0};
  for (std::size_t i = 1; i < model.layers().size(); ++i)
    if (!model.layers()[i].joined) places.push_back(i);
  require(places.size() >= model.num_stages(),
          "partition: there must be a layer for each stage, joined layers counted as one; got ",
          places.size(), " layers for ", model.num_stages(), " stages");
  places.push_back(model.layers().size());
  return places;
}

// The starts of the stages for which value(stage, b, e), joined over all stages, is least; none if
// it is infinite for all cuts. Among equals, the one whose last stage begins first, and so on down
// to the second.
//
// REQUIRES: values are not negative; join(x, y) is not less than x and y, and grows with both
template <class Value, class Join>
std::vector<std::size_t> least_cut(const Model& model, Value value, Join join) {
  const std::vector<std::size_t> places = cut_places(model);
  const std::size_t num_stages = model.num_stages(), last = places.size() - 1;
  std::vector<double> least(last + 1, kInfinity);  // of the stages so far, up to each place
  least[0] = 0;
  std::vector<std::vector<std::size_t>> begins;  // of the stage that ends there
  for (std::size_t stage = 0; stage < num_stages; ++stage) {
    std::vector<double> next(last + 1, kInfinity);
    begins.emplace_back(last + 1, 0);
    const std::size_t stages_left = num_stages - stage - 1;
    for (std::size_t e = stages_left ? stage + 1 : last; e <= last - stages_left; ++e)
      for (std::size_t b = stage; b < e; ++b) {
        if (least[b] >= next[e]) continue;
        const double joined = join(least[b], value(stage, places[b], places[e]));
        if (joined >= next[e]) continue;
        next[e] = joined;
        begins[stage][e] = b;
      }
    least = std::move(next);
  }
  if (least[last] == kInfinity) return {};
  std::vector<std::size_t> starts(num_stages);
  for (std::size_t stage = num_stages, e = last; stage-- > 0;) {
    e = begins[stage][e];
    starts[stage] = places[e];
  }
  return starts;
}

double larger(double x, double y) { return std::max(x, y); }

std::size_t end_of(const Model& model, const std::vector<std::size_t>& starts, std::size_t stage) {
  return stage + 1 < starts.size() ? starts[stage + 1] : model.layers().size();
}

StageCost stage_cost(const Model& model, std::size_t stage, std::size_t b, std::size_t e) {
  const std::vector<LayerCost>& layers = model.layers();
  StageCost cost{.device = static_cast<int>(stage) % model.num_devices(),
                 .begin = b,
                 .end = e,
                 .first = layers[b].name,
                 .last = layers[e - 1].name,
                 .message_s = model.message_s(b, e),
                 .memory_bytes = static_cast<std::int64_t>(model.memory(stage, b, e))};
  for (std::size_t i = b; i < e; ++i) {
    cost.forward_s += layers[i].forward_s;
    cost.backward_s += layers[i].backward_input_s + layers[i].backward_weight_s;
  }
  return cost;
}

std::vector<StageCost> stage_costs(const Model& model, const std::vector<std::size_t>& starts) {
  std::vector<StageCost> stages;
  for (std::size_t stage = 0; stage < starts.size(); ++stage)
    stages.push_back(stage_cost(model, stage, starts[stage], end_of(model, starts, stage)));
  return stages;
}

StepPrediction predict(const Model& model, const std::vector<StageCost>& stages) {
  const auto p = static_cast<std::size_t>(model.num_devices());
  const double m = model.options().num_micro_batches;
  std::vector<double> seconds(p, 0);
  std::vector<std::int64_t> memory(p, 0);
  double busy_s = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    seconds[stage % p] += stages[stage].seconds();
    memory[stage % p] += stages[stage].memory_bytes;
    busy_s += stages[stage].forward_s + stages[stage].backward_s;
  }
  const double slowest_s = *std::max_element(seconds.begin(), seconds.end());
  const double all_s = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  StepPrediction step{.seconds = m * slowest_s + (all_s - slowest_s) / model.stages_per_device(),
                      .memory_bytes = *std::max_element(memory.begin(), memory.end())};
  if (step.seconds > 0) step.bubble = 1 - m * busy_s / (static_cast<double>(p) * step.seconds);
  return step;
}

std::vector<std::size_t> uniform_starts(const Model& model) {
  const std::vector<std::size_t> places = cut_places(model);
  std::vector<std::size_t> starts;
  for (std::size_t stage = 0; stage < model.num_stages(); ++stage)
    starts.push_back(places[stage * (places.size() - 1) / model.num_stages()]);
  return starts;
}

Partition describe(const Model& model, const std::vector<std::size_t>& starts) {
  Partition partition{.starts = starts,
                      .stages = stage_costs(model, starts),
                      .num_micro_batches = model.options().num_micro_batches,
                      .memory_limit_bytes = model.options().memory_limit_bytes};
  partition.step = predict(model, partition.stages);
  partition.uniform_step = predict(model, stage_costs(model, uniform_starts(model)));
  return partition;
}

// "layers 3 to 5, which need 120 bytes": the stage that needs the most.
std::string largest_of(const std::vector<StageCost>& stages) {
  const auto less = [](const StageCost& a, const StageCost& b) {
    return a.memory_bytes < b.memory_bytes;
  };
  const StageCost& largest = *std::max_element(stages.begin(), stages.end(), less);
  return text_of("layers \"", largest.first, "\" to \"", largest.last, "\", which need ",
                 largest.memory_bytes, " bytes");
}

Partition in_memory(Partition partition) {
  const std::int64_t limit = partition.memory_limit_bytes, needs = partition.step.memory_bytes;
  require(limit == 0 || needs <= limit, "partition: stages must fit into ", limit,
          " bytes per device; got a device that needs ", needs, ", and ",
          largest_of(partition.stages));
  return partition;
}

// The message if no cut fits: it names the smallest sufficient limit.
std::string too_large(const Model& model) {
  const auto memory = [&](std::size_t stage, std::size_t b, std::size_t e) {
    return model.memory(stage, b, e);
  };
  const auto stages = stage_costs(model, least_cut(model, memory, larger));
  std::int64_t largest = 0;
  for (const StageCost& stage : stages) largest = std::max(largest, stage.memory_bytes);
  const int v = model.stages_per_device();
  return text_of("partition: ", model.num_stages(), " stages must fit into ",
                 model.options().memory_limit_bytes, " bytes per device; got at best ",
                 largest_of(stages), "; the least limit is ", largest * v,
                 v > 1 ? ", with equal shares for the stages of a device" : "");
}

}  // namespace

PartitionOptions partition_options(const PipelinePlan& plan) {
  const auto num_stages = static_cast<std::size_t>(plan.num_stages);
  std::vector<int> kept(num_stages, 0), peaks(num_stages, 1);
  for (const auto& actions : plan.actions)
    for (const PipelineAction& action : actions) {
      const auto stage = static_cast<std::size_t>(action.stage);
      kept[stage] += action.op == PipelineOp::forward;
      peaks[stage] = std::max(peaks[stage], kept[stage]);
      kept[stage] -= action.op == PipelineOp::backward || action.op == PipelineOp::backward_weight;
    }
  return {.num_devices = plan.num_devices,
          .num_micro_batches = plan.num_micro_batches,
          .kept = std::move(peaks)};
}

std::size_t Partition::bottleneck() const {
  const auto slower = [](const StageCost& a, const StageCost& b) {
    return a.seconds() < b.seconds();
  };
  return static_cast<std::size_t>(std::max_element(stages.begin(), stages.end(), slower) -
                                  stages.begin());
}

Partition partition_at(const std::vector<LayerCost>& layers, const std::vector<std::size_t>& starts,
                       const PartitionOptions& options) {
  const Model model(layers, static_cast<int>(starts.size()), options);
  require(starts[0] == 0, "partition: the first stage must start at layer 0; got ", starts[0]);
  for (std::size_t stage = 0; stage < starts.size(); ++stage)
    require(starts[stage] < end_of(model, starts, stage),
            "partition: starts must grow and be less than ", layers.size(),
            ", the number of layers; got ", starts[stage], " of stage ", stage);
  for (std::size_t stage = 1; stage < starts.size(); ++stage)
    require(!layers[starts[stage]].joined, "partition: layer \"", layers[starts[stage]].name,
            "\" runs in one pass with the one before it; got a cut between them");
  return in_memory(describe(model, starts));
}

Partition uniform_partition(const std::vector<LayerCost>& layers, int num_stages,
                            const PartitionOptions& options) {
  const Model model(layers, num_stages, options);
  return in_memory(describe(model, uniform_starts(model)));
}

Partition optimal_partition(const std::vector<LayerCost>& layers, int num_stages,
                            const PartitionOptions& options) {
  const Model model(layers, num_stages, options);
  const auto seconds = [&](std::size_t s, std::size_t b, std::size_t e) {
    return model.fits(s, b, e) ? model.seconds(b, e) : kInfinity;
  };
  const std::vector<std::size_t> fastest = least_cut(model, seconds, larger);
  if (fastest.empty()) throw std::invalid_argument(too_large(model));
  double slowest_s = 0;
  for (std::size_t stage = 0; stage < fastest.size(); ++stage)
    slowest_s = std::max(slowest_s, seconds(stage, fastest[stage], end_of(model, fastest, stage)));
  const auto bytes = [&](std::size_t s, std::size_t b, std::size_t e) {
    return seconds(s, b, e) <= slowest_s ? model.sent_bytes(b, e) : kInfinity;
  };
  return describe(model, least_cut(model, bytes, [](double x, double y) { return x + y; }));
}

}  // namespace ringrad
