#include "ringrad/nn/layers/sequential.h"

#include <typeinfo>

namespace ringrad::nn {

void Sequential::append(const std::string& name, std::shared_ptr<Module> module, Where where) {
  const Module& layer = add_child(name, std::move(module), where);
  is_relu_.push_back(typeid(layer) == typeid(ReLU));
}

Tensor Sequential::forward(const Tensor& x, Where at) {
  check_not_moved_from(at);
  Tensor y = x;
  for (std::size_t i = 0; i < num_children(); ++i) {
    Module& layer = child_at(i);
    const bool relu_follows = i + 1 < num_children() && is_relu_[i + 1] && !layer.has_hooks() &&
                              !child_at(i + 1).has_hooks();
    if (layer.has_hooks()) {
      y = layer(y, at);
      continue;
    }
    try {
      const TraceSpan span(layer.trace_name(), "layer");
      y = relu_follows ? layer.forward_relu(y, at) : layer.forward(y, at);
    } catch (Error& error) {
      error.add_context(concat("in layer ", layer.trace_name()));
      throw;
    }
    if (relu_follows) ++i;
  }
  return y;
}

std::vector<Sequential> Sequential::split(Sequential net, const std::vector<std::size_t>& starts,
                                          Where where) {
  const std::size_t num_layers = net.num_layers();
  for (std::size_t s = 0; s < starts.size(); ++s)
    RINGRAD_CHECK(starts[s] < num_layers && (s == 0 ? starts[s] == 0 : starts[s - 1] < starts[s]),
                  ValueError, where,
                  "split: stages must start at layer 0, and then at growing ones below ",
                  num_layers, "; got stage ", s, " of ", starts.size(), " at layer ", starts[s]);
  RINGRAD_CHECK(!starts.empty(), ValueError, where,
                "split: there must be a stage; got no layer for one to start at");
  std::vector<Sequential> stages(starts.size());
  for (std::size_t s = 0; s < starts.size(); ++s) {
    stages[s].train(net.is_training());  // the stage itself only: its layers keep their modes
    const std::size_t end = s + 1 < starts.size() ? starts[s + 1] : num_layers;
    for (std::size_t i = starts[s]; i < end; ++i) {
      auto [name, layer] = net.release_child(i);
      stages[s].add_child(name, std::move(layer), where);
      stages[s].is_relu_.push_back(net.is_relu_[i]);
    }
  }
  return stages;
}

}  // namespace ringrad::nn
