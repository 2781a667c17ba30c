#include "ringrad/parallel/train/tensor/branches.h"

#include <algorithm>
#include <functional>
#include <map>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/view.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/parallel/train/tensor/tensor_parallel.h"

namespace ringrad {
namespace {

// One branch in one forward pass, with its own graph.
//
// That graph ends in leaves which stand in for the parameters' leaves. Gradients of a branch
// collect there, and neither a parameter's grad() nor its hooks are touched before the caller's
// tape gets to it.
struct Part {
  Tensor x, y;
  std::vector<Tensor> parameters;       // that require gradients
  std::vector<Ref<History>> stand_ins;  // one per parameter
  // While backward runs:
  Tensor grad_x;
  std::vector<Tensor> destinations, grads;  // one per parameter, undefined where there is none
};

// While it lives, recorded uses of the parameters lead to the part's leaves.
class StandIn {
 public:
  explicit StandIn(Part& part) : part_(part) { exchange(); }
  ~StandIn() { exchange(); }
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

 private:
  void exchange() {
    for (std::size_t i = 0; i < part_.parameters.size(); ++i)
      std::swap(part_.parameters[i].impl()->history, part_.stand_ins[i]);
  }
  Part& part_;
};

std::vector<Part> parts_of(const Tensor& x, const std::vector<std::vector<Tensor>>& parameters) {
  const bool records = grad_enabled();
  const NoGradGuard guard;
  std::vector<Part> parts;
  for (const std::vector<Tensor>& of_branch : parameters) {
    Part& part = parts.emplace_back();
    part.x = view::alias(x);
    if (!records) continue;
    if (x.requires_grad()) part.x.set_requires_grad();
    for (const Tensor& parameter : of_branch) {
      if (!parameter.requires_grad()) continue;
      part.parameters.push_back(parameter);
      part.stand_ins.push_back(make_ref<Leaf>(parameter, parameter.made_at()));
    }
  }
  return parts;
}

void backward_of(Part& part, const Tensor& grad_output, Where where) {
  if (!grad_output.defined() || !part.y.requires_grad()) return;
  const StandIn guard(part);
  const auto leaf = [&](std::size_t i) { return known_leaf_of(part.parameters[i]); };
  for (std::size_t i = 0; i < part.parameters.size(); ++i) {
    leaf(i)->overwrite = part.destinations[i].defined();
    leaf(i)->grad = std::exchange(part.destinations[i], {});
  }
  if (part.x.requires_grad()) part.x.set_grad({});  // left by a pass that failed
  // The outer pass decides whether the history is kept: its function holds all of it.
  part.y.backward(grad_output, {.retain_graph = true}, where);
  for (std::size_t i = 0; i < part.parameters.size(); ++i) {
    const bool is_reached = !std::exchange(leaf(i)->overwrite, false);
    const Tensor grad = std::exchange(leaf(i)->grad, {});
    if (is_reached) part.grads[i] = grad;
  }
  if (part.x.requires_grad()) part.grad_x = std::exchange(leaf_of(part.x)->grad, {});
}

// Calls visit(part, i) for all inputs of the operation: i is a parameter's number, or -1 for x.
// This is the order of the tape itself: from the last operator to the first, x once per branch.
// Gradients are delivered in it.
void for_each_input(std::vector<Part>& parts, const std::function<void(Part&, int i)>& visit) {
  for (auto part = parts.rbegin(); part != parts.rend(); ++part)
    for (int i = static_cast<int>(part->parameters.size()) - 1; i >= -1; --i) visit(*part, i);
}

}  // namespace

// The state that outlives the block if a graph holds it.
struct BranchesState {
  BranchRunner runner;
  BranchTimes forward, backward;
};

namespace {

// A branch's result, made on its stream, is used on the caller's stream from now on. A result that
// is a part of another tensor, such as x or an arena, does not belong to the branch.
const Tensor& handed_over(const Tensor& result, const Part& part, Where where) {
  if (result.defined() && result.device().is_cuda() && !result.storage()->whole() &&
      result.storage() != part.x.storage())
    record_stream(result.storage()->data(), current_stream(result.device()), where);
  return result;
}

void backward_of(BranchesState& state, std::vector<Part>& parts, BackwardContext& context) {
  const Where where = context.where();
  RINGRAD_CHECK(!grad_enabled(), AutogradError, where,
                "backward of Branches: create_graph must be off; got on");
  for (Part& part : parts) {
    part.destinations.assign(part.parameters.size(), {});
    part.grads.assign(part.parameters.size(), {});
  }
  int input = 0;
  for_each_input(parts, [&](Part& part, int i) {
    if (i >= 0) part.destinations[static_cast<std::size_t>(i)] = context.destination(input);
    ++input;
  });
  run_branches(
      state.runner, state.backward, parts[0].x, /*is_measured=*/true,
      [&](int k) {
        backward_of(parts[static_cast<std::size_t>(k)], context.grad_output(k), where);
      },
      where);
  input = 0;
  for_each_input(parts, [&](Part& part, int i) {
    Tensor& grad = i < 0 ? part.grad_x : part.grads[static_cast<std::size_t>(i)];
    context.set(input++, handed_over(std::exchange(grad, {}), part, where));
  });
}

std::vector<Tensor> record_outputs(const std::shared_ptr<BranchesState>& state, const Tensor& x,
                                   std::shared_ptr<std::vector<Part>> parts, Where where) {
  std::vector<Tensor> outputs, inputs;
  for (const Part& part : *parts)
    outputs.push_back(view::alias(handed_over(part.y, part, where), where));
  for_each_input(*parts, [&](Part& part, int i) {
    inputs.push_back(i < 0 ? x : part.parameters[static_cast<std::size_t>(i)]);
  });
  if (needs_grad(std::span<const Tensor>(inputs)))
    record("branches", where, outputs, inputs,
           [state, parts = std::move(parts)](BackwardContext& context) {
             backward_of(*state, *parts, context);
           });
  return outputs;
}

}  // namespace

std::shared_ptr<BranchesState> Branches::make_state() { return std::make_shared<BranchesState>(); }

void Branches::set_mode(Mode mode) { state_->runner.mode = mode; }

std::string Branches::describe() const {
  return join_ == Join::sum ? "Branches(sum)" : "Branches(concatenate)";
}

std::string Branches::report() const {
  return concat(describe(), " for x ", state_->forward.shape(), '\n',
                report_of(state_->forward, state_->backward));
}

std::vector<std::vector<Tensor>> Branches::parameters_of_branches(Where where) {
  std::map<const TensorImpl*, std::pair<std::size_t, std::string>> owners;
  const auto check = [&](const nn::NamedTensor& named, std::size_t k) {
    const auto& [name, tensor] = named;
    const auto [owner, is_new] = owners.try_emplace(tensor.impl(), k, name);
    RINGRAD_CHECK(is_new || owner->second.first == k, ValueError, where,
                  "Branches: branches must not share a parameter or buffer, since they work at the "
                  "same time; got ",
                  owner->second.second, " of branch ", owner->second.first, " again as ", name,
                  " of branch ", k);
  };
  std::vector<std::vector<Tensor>> parameters(num_children());
  for (std::size_t k = 0; k < num_children(); ++k) {
    for (const nn::NamedTensor& named : child_at(k).named_parameters()) {
      check(named, k);
      parameters[k].push_back(named.second);
    }
    for (const nn::NamedTensor& named : child_at(k).named_buffers()) check(named, k);
  }
  return parameters;
}

// Every rank must make the collectives in the same order: none may make branch 1's before branch
// 0's.
bool Branches::has_collectives() {
  bool found = false;
  visit([&](const std::string&, nn::Module& module) {
    const auto* norm = dynamic_cast<const nn::BatchNorm*>(&module);
    found |= norm && norm->trains_with_function();
    found |= dynamic_cast<const ParallelLinear*>(&module) != nullptr;
  });
  return found;
}

std::vector<Tensor> Branches::outputs(const Tensor& x, Where where) {
  RINGRAD_CHECK(num_children() > 0, ValueError, where,
                "Branches: there must be at least one branch; got none");
  x.device(where);  // throws if x is undefined
  BranchRunner& runner = state_->runner;
  for (std::size_t k = runner.names.size(); k < num_children(); ++k)
    runner.names.push_back(child_at(k).describe());
  runner.must_be_in_turn = has_collectives();
  auto parts = std::make_shared<std::vector<Part>>(parts_of(x, parameters_of_branches(where)));
  run_branches(
      runner, state_->forward, x, /*is_measured=*/grad_enabled(),
      [&](int k) {
        const auto at = static_cast<std::size_t>(k);
        const StandIn guard((*parts)[at]);
        (*parts)[at].y = child_at(at)((*parts)[at].x, where);
      },
      where);
  return record_outputs(state_, x, std::move(parts), where);
}

Tensor Branches::forward(const Tensor& x, Where at) {
  const std::vector<Tensor> parts = outputs(x, at);
  check_joinable(parts, at);
  if (join_ == Join::concatenate) return concatenate(parts, 1, at);
  Tensor sum = parts[0];
  for (std::size_t k = 1; k < parts.size(); ++k) sum = add(sum, parts[k], at);
  return sum;
}

void Branches::check_joinable(const std::vector<Tensor>& outputs, Where where) const {
  const bool adds = join_ == Join::sum;
  const auto shape_but_channels = [&](const Tensor& y) {
    Shape shape = y.shape();
    if (!adds && shape.size() > 1) shape[1] = 0;
    return shape;
  };
  const bool fits = std::ranges::all_of(outputs, [&](const Tensor& y) {
    return (adds || y.dims() > 1) && shape_but_channels(y) == shape_but_channels(outputs[0]);
  });
  if (fits) return;
  std::string shapes;
  for (const Tensor& y : outputs) shapes += concat(shapes.empty() ? "" : ", ", y.shape());
  throw ShapeError(concat("Branches: outputs must have one shape",
                          adds ? "" : ", of two axes at least, but for axis 1", "; got ", shapes),
                   where);
}

}  // namespace ringrad
