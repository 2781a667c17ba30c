#include "ringrad/parallel/train/pipeline/assumed_layers.h"

#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "ringrad/autograd/node.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"
#include "ringrad/parallel/train/pipeline/layer_profile.h"

namespace ringrad {
namespace {

constexpr std::int64_t kSamples = 2;  // batch norm needs more than one

struct Weight {
  std::size_t layer;
  double flops_per_output;  // element
};

// Weights of convolutions and matrix products, by the leaf at which their gradients arrive.
std::map<const Node*, Weight> weights_of(nn::Sequential& net) {
  std::map<const Node*, Weight> weights;
  for (std::size_t i = 0; i < net.num_layers(); ++i)
    for (const Tensor& parameter : net.layer(i).parameters()) {
      if (parameter.dims() < 2) continue;
      const double flops_per_output =
          2.0 * static_cast<double>(parameter.numel()) / static_cast<double>(parameter.size(0));
      // A weight that several layers share counts for the first.
      weights.emplace(leaf_of(parameter), Weight{i, flops_per_output});
    }
  return weights;
}

// Adds a hook to every operation of the tape that has a weight. The hook reports the size of the
// operation's output when its gradient comes.
void count_outputs(Node* root, const std::map<const Node*, Weight>& weights,
                   std::vector<LayerWork>& work) {
  std::map<const Node*, bool> seen;
  std::vector<Node*> open{root};
  while (!open.empty()) {
    Node* const node = open.back();
    open.pop_back();
    if (node == nullptr || std::exchange(seen[node], true)) continue;
    for (const Edge& edge : node->edges()) {
      open.push_back(edge.node.get());
      const auto weight = weights.find(edge.node.get());
      if (weight == weights.end()) continue;
      double& flops = work[weight->second.layer].flops;
      node->add_hook(0, [&flops, per_output = weight->second.flops_per_output](const Tensor& grad) {
        flops += per_output * static_cast<double>(grad.numel()) / kSamples;
        return Tensor();
      });
    }
  }
}

}  // namespace

std::vector<LayerWork> count_work(nn::Sequential& net, const Shape& sample, Where where) {
  Shape shape = sample;
  shape.insert(0, kSamples);
  const Tensor x = randn(shape);
  std::vector<LayerWork> work;
  double input_bytes = static_cast<double>(x.numel() * size_bytes(x.dtype())) / kSamples;
  bool has_parameters = false;
  for (LayerCost& layer : profile_layers(net, x, {.warm_up = 0, .repeats = 1}, where)) {
    layer.forward_s = layer.backward_input_s = layer.backward_weight_s = 0;
    layer.output_bytes /= kSamples;
    layer.saved_bytes /= kSamples;
    work.push_back({layer, 0, input_bytes, has_parameters});
    input_bytes = static_cast<double>(layer.output_bytes);
    has_parameters = has_parameters || layer.parameter_bytes > 0;
  }
  const Tensor y = net(x, where);
  count_outputs(node_of(y), weights_of(net), work);
  sum(y).backward();
  net.zero_grad();
  return work;
}

std::vector<LayerCost> assumed_layers(const std::vector<LayerWork>& work, std::int64_t samples,
                                      const Topology& topology, double efficiency) {
  if (samples < 1)
    throw std::invalid_argument("assumed_layers: samples must be positive; got " +
                                std::to_string(samples));
  std::vector<LayerCost> costs;
  const auto b = static_cast<double>(samples);
  for (const LayerWork& each : work) {
    LayerCost cost = each.bytes;
    const double bytes = b * (each.input_bytes + static_cast<double>(cost.output_bytes) +
                              2 * static_cast<double>(cost.saved_bytes)) +
                         static_cast<double>(cost.parameter_bytes);
    const double pass_s = topology.kernel_seconds(b * each.flops, bytes, efficiency);
    if (!cost.joined) cost.forward_s = pass_s;
    if (!cost.joined && each.needs_input_gradient) cost.backward_input_s = pass_s;
    if (cost.parameter_bytes > 0) cost.backward_weight_s = pass_s;
    cost.output_bytes *= samples;
    cost.saved_bytes *= samples;
    costs.push_back(cost);
  }
  return costs;
}

}  // namespace ringrad
