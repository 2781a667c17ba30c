#include "ringrad/parallel/train/pipeline/layer_profile.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/random/random.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/parallel/comm/common/rethrow.h"
#include "ringrad/parallel/train/common/known_parameters.h"
#include "ringrad/parallel/train/common/on_root.h"

namespace ringrad {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Layer {
  std::string name;
  nn::Module* module;
  bool is_relu;
};

std::vector<Layer> layers_of(nn::Sequential& net) {
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < net.num_layers(); ++i) {
    nn::Module& module = net.layer(i);
    const std::string kind = module.describe();
    layers.push_back({net.layer_name(i) + ' ' + kind.substr(0, kind.find('(')), &module,
                      typeid(module) == typeid(nn::ReLU)});
  }
  return layers;
}

// A layer, possibly with the ReLU behind it, as Sequential runs it in one pass.
class ProfiledPass {
 public:
  ProfiledPass(std::size_t index, const Layer& layer, bool with_relu)
      : index(index),
        trained(trained_parameters(*layer.module)),
        layer_(layer),
        with_relu_(with_relu) {}

  Tensor run(const Tensor& x, Where where) const {
    try {
      nn::Module& module = *layer_.module;
      return with_relu_ ? module.forward_relu(x, where) : module(x, where);
    } catch (...) {
      rethrow_of("profile_layers: layer " + layer_.name, std::current_exception(), where);
    }
  }

  std::size_t index;
  std::vector<Tensor> trained;  // its parameters that are not frozen

 private:
  Layer layer_;
  bool with_relu_;
};

std::vector<ProfiledPass> passes_of(const std::vector<Layer>& layers) {
  std::vector<ProfiledPass> passes;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool relu_follows = i + 1 < layers.size() && layers[i + 1].is_relu &&
                              !layers[i].module->has_hooks() && !layers[i + 1].module->has_hooks();
    passes.emplace_back(i, layers[i], relu_follows);
    if (relu_follows) ++i;
  }
  return passes;
}

// Preserves what passes change besides their results: buffers and random numbers. While it lives,
// the net has copies.
class Untouched {
 public:
  explicit Untouched(const nn::Module& net) : generator_(default_generator()) {
    std::vector<Tensor> copies;
    for (const auto& [name, buffer] : net.named_buffers()) {
      lent_.emplace_back(buffer, buffer.detach());
      copies.push_back(kernels::clone(buffer));
    }
    for (std::size_t i = 0; i < lent_.size(); ++i) lent_[i].first.set_data(copies[i]);
  }
  ~Untouched() {
    for (const auto& [buffer, memory] : lent_) buffer.set_data(memory);
    default_generator() = generator_;
  }
  Untouched(const Untouched&) = delete;
  Untouched& operator=(const Untouched&) = delete;

 private:
  Generator generator_;
  std::vector<std::pair<Tensor, Tensor>> lent_;  // a buffer, and its own memory
};

class Frozen {
 public:
  explicit Frozen(const std::vector<Tensor>& parameters) : parameters_(parameters) {
    for (const Tensor& parameter : parameters_) parameter.set_requires_grad(false);
  }
  ~Frozen() {
    for (const Tensor& parameter : parameters_) parameter.set_requires_grad(true);
  }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

 private:
  const std::vector<Tensor>& parameters_;
};

// A layer's input from the layer before: the values without their history.
Tensor input_from(const Tensor& output) {
  Tensor input = output.detach();
  if (output.requires_grad()) input.set_requires_grad();
  return input;
}

template <class Body>
double seconds_of(const Device& device, Where where, Body body) {
  if (device.is_cpu()) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  const Stream stream = current_stream(device);
  const Event begin(stream, /*timing=*/true, where);
  body();
  const Event end(stream, /*timing=*/true, where);
  end.synchronize(where);
  return Event::milliseconds(begin, end, where) / 1e3;
}

std::int64_t median(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Times {
  double forward_s = 0, backward_s = 0;
  Tensor output;
};

// One pass forward and one backward, to the gradients of x and of `parameters`.
Times forward_and_backward(const ProfiledPass& pass, const Tensor& x,
                           std::vector<Tensor> parameters, Where where) {
  Times times;
  times.forward_s = seconds_of(x.device(), where, [&] { times.output = pass.run(x, where); });
  if (!times.output.requires_grad()) return times;
  if (x.requires_grad()) parameters.push_back(x);
  const Tensor gradient = empty_like(times.output.detach(), where);
  fill_(gradient, 1, where);
  times.backward_s = seconds_of(x.device(), where, [&] {
    grad({&times.output, 1}, parameters, {&gradient, 1}, {}, where);
  });
  return times;
}

// Fills in the seconds, and returns the output.
Tensor measure_seconds(const ProfiledPass& pass, const Tensor& x, const ProfileOptions& options,
                       LayerCost& cost, Where where) {
  double frozen_s = kInfinity, all_s = kInfinity;
  cost.forward_s = kInfinity;
  Tensor output;
  for (int k = -options.warm_up; k < options.repeats; ++k) {
    Times whole = forward_and_backward(pass, x, pass.trained, where);
    Times frozen;
    if (x.requires_grad()) {
      const Frozen guard(pass.trained);
      frozen = forward_and_backward(pass, x, {}, where);
    }
    output = std::move(whole.output);
    if (k < 0) continue;
    cost.forward_s = std::min(cost.forward_s, whole.forward_s);
    all_s = std::min(all_s, whole.backward_s);
    frozen_s = std::min(frozen_s, frozen.backward_s);
  }
  // Without trained parameters, noise must not count as time for the gradients of weights.
  cost.backward_input_s =
      x.requires_grad() && pass.trained.empty() ? all_s : std::min(frozen_s, all_s);
  cost.backward_weight_s = all_s - cost.backward_input_s;
  return output;
}

// The bytes that each forward pass leaves behind, counted for the pass that made them. Two tapes
// exist at a time: whether an output is kept is known once the next pass has run.
std::vector<std::int64_t> saved_bytes(const std::vector<ProfiledPass>& passes, const Tensor& sample,
                                      Where where) {
  const auto allocated = [&] { return allocator_stats(sample.device()).allocated_bytes; };
  std::vector<std::int64_t> bytes;
  Tensor x = input_from(sample);
  std::size_t maker = 0;  // the pass that made x's memory; at first the sample's owner
  Ref<History> tape;      // of the pass that made x
  for (const ProfiledPass& pass : passes) {
    const std::int64_t before = allocated();
    Tensor y = pass.run(x, where);
    const std::int64_t after = allocated();
    bytes.push_back(after - before);
    const bool is_view = y.storage() == x.storage();
    x = {};
    bytes[maker] -= after - allocated();
    if (!is_view) maker = bytes.size() - 1;
    tape = y.impl()->history;
    x = input_from(y);
  }
  return bytes;
}

// Visits a line's numbers in the order of the fields.
template <class Cost, class Visit>
void for_each_number(Cost& cost, Visit visit) {
  visit(cost.forward_s);
  visit(cost.backward_input_s);
  visit(cost.backward_weight_s);
  visit(cost.parameter_bytes);
  visit(cost.output_bytes);
  visit(cost.saved_bytes);
  visit(cost.joined);
}
constexpr std::int64_t kNumbers = 7;

}  // namespace

std::vector<LayerCost> profile_layers(nn::Sequential& net, const Tensor& sample,
                                      const ProfileOptions& options, Where where) {
  RINGRAD_CHECK(options.warm_up >= 0 && options.repeats >= 1, ValueError, where,
                "profile_layers: warm_up must not be negative and repeats be positive; got ",
                options.warm_up, " and ", options.repeats);
  RINGRAD_CHECK(sample.defined(), ValueError, where,
                "profile_layers: there must be a sample; got an undefined tensor");
  const std::vector<Layer> layers = layers_of(net);
  RINGRAD_CHECK(!layers.empty(), ValueError, where,
                "profile_layers: the net must have layers; got none");
  const std::vector<ProfiledPass> passes = passes_of(layers);
  const Untouched untouched(net);
  const EnableGradGuard recorded;

  std::vector<LayerCost> costs;
  for (const Layer& layer : layers) costs.push_back({.name = layer.name, .joined = true});
  Tensor x = input_from(sample);
  for (const ProfiledPass& pass : passes) {
    LayerCost& cost = costs[pass.index];
    cost.joined = false;
    for (const Tensor& parameter : layers[pass.index].module->parameters())
      cost.parameter_bytes +=
          parameter.numel() * static_cast<std::int64_t>(size_bytes(parameter.dtype()));
    const Tensor y = measure_seconds(pass, x, options, cost, where);
    cost.output_bytes = y.numel() * static_cast<std::int64_t>(size_bytes(y.dtype()));
    x = input_from(y);
  }
  for (std::size_t i = 1; i < costs.size(); ++i)
    if (costs[i].joined) costs[i].output_bytes = costs[i - 1].output_bytes;

  std::vector<std::vector<std::int64_t>> saved(passes.size());
  for (int k = 0; k < options.repeats; ++k) {
    const std::vector<std::int64_t> bytes = saved_bytes(passes, sample, where);
    for (std::size_t i = 0; i < passes.size(); ++i) saved[i].push_back(bytes[i]);
  }
  for (std::size_t i = 0; i < passes.size(); ++i)
    costs[passes[i].index].saved_bytes = std::max<std::int64_t>(median(saved[i]), 0);
  return costs;
}

std::vector<LayerCost> profile_layers(nn::Sequential& net, const Tensor& sample, Communicator& comm,
                                      const ProfileOptions& options, Where where) {
  std::vector<LayerCost> costs;
  for (const Layer& layer : layers_of(net)) costs.push_back({.name = layer.name});
  on_root<ValueError>(comm, where, [&] { costs = profile_layers(net, sample, options, where); });
  // Doubles hold byte counts exactly as well: all whole numbers up to 2^53.
  const Tensor numbers =
      empty({std::ssize(costs), kNumbers}, {.dtype = DType::float64, .device = Device()}, where);
  double* next = numbers.data<double>();
  if (comm.rank() == 0)
    for (const LayerCost& cost : costs)
      for_each_number(cost, [&](const auto& number) { *next++ = static_cast<double>(number); });
  comm.broadcast(numbers, 0, where);
  next = numbers.data<double>();
  for (LayerCost& cost : costs)
    for_each_number(cost, [&](auto& number) {
      number = static_cast<std::remove_reference_t<decltype(number)>>(*next++);
    });
  return costs;
}

}  // namespace ringrad
