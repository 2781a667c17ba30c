#include "ringrad/parallel/train/data_parallel/sharded_optimizer.h"

#include <algorithm>
#include <set>

#include "ringrad/autograd/node.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/optimizer/optimizer_step.h"
#include "ringrad/nn/optimizer/clip_to_norm.h"
#include "ringrad/nn/optimizer/step_counts.h"
#include "ringrad/parallel/comm/common/call_purpose.h"
#include "ringrad/parallel/comm/record/fault_injection.h"
#include "ringrad/parallel/train/common/joint_norm.h"
#include "ringrad/parallel/train/common/replica.h"

namespace ringrad {
namespace {

constexpr std::int64_t kCutBytes = 64;

nn::ParameterGroups trained_groups(const nn::Module& module, const nn::ParameterGroups& groups,
                                   Where where) {
  const std::vector<Tensor> trained = trained_parameters(module);
  if (groups.begin() == groups.end()) return trained;
  const auto identities = [](const std::vector<Tensor>& parameters) {
    std::multiset<const TensorImpl*> result;
    for (const Tensor& parameter : parameters) result.insert(parameter.impl());
    return result;
  };
  const std::vector<Tensor> grouped = groups.parameters();
  RINGRAD_CHECK(identities(grouped) == identities(trained), ValueError, where,
                "ShardedOptimizer: groups must hold each trained parameter of the module once, and "
                "no others; got ",
                grouped.size(), " for ", trained.size(), " trained ones");
  return groups;
}

std::vector<nn::NamedTensor> trained_ones(const nn::Module& module) {
  std::vector<nn::NamedTensor> trained = module.named_parameters();
  std::erase_if(trained, [](const auto& named) { return !named.second.requires_grad(); });
  return trained;
}

// The optimizer of elements [begin, end) of the arena; null if there are none.
std::unique_ptr<nn::Optimizer> optimizer_of(const nn::ParameterArena& arena, std::int64_t begin,
                                            std::int64_t end,
                                            const ShardedOptimizer::MakeOptimizer& make,
                                            Where where) {
  if (begin == end) return nullptr;
  const Tensor parameter = arena.flat_parameter(begin, end - begin);
  const std::byte* const place = parameter.raw_data();
  std::unique_ptr<nn::Optimizer> made;
  // An optimizer that std::make_unique makes takes a line of the standard library for its caller's.
  try {
    made = make({parameter});
  } catch (const ShapeError& error) {
    throw ShapeError(
        concat("ShardedOptimizer: make_optimizer must make an optimizer that treats each "
               "element by itself, as a rank's part of the parameters is one flat tensor; "
               "got: ",
               error.message()),
        where);
  } catch (const ValueError& error) {
    throw ValueError(concat("ShardedOptimizer: make_optimizer: ", error.message()), where);
  } catch (const DTypeError& error) {
    throw DTypeError(concat("ShardedOptimizer: make_optimizer: ", error.message()), where);
  }
  RINGRAD_CHECK(made && made->arenas().size() == 1 &&
                    made->arenas().front().values().numel() == end - begin &&
                    made->arenas().front().values().raw_data() == place,
                ValueError, where,
                "ShardedOptimizer: make_optimizer must return an optimizer of exactly the "
                "parameters that it is given; got ",
                made ? "one of others" : "none");
  return made;
}

const Tensor& values_of(const nn::Optimizer& optimizer) {
  return optimizer.arenas().front().values();
}
const Tensor& gradients_of(const nn::Optimizer& optimizer) {
  return optimizer.arenas().front().gradients();
}

}  // namespace

ShardedOptimizer::ShardedOptimizer(nn::Module& module, Communicator& comm,
                                   const MakeOptimizer& make_optimizer,
                                   const nn::ParameterGroups& groups, Where where)
    : ShardedOptimizer(Replica("ShardedOptimizer", module, comm, where), module, comm,
                       make_optimizer, groups, where) {}

ShardedOptimizer::ShardedOptimizer(const Replica& replica, nn::Module& module, Communicator& comm,
                                   const MakeOptimizer& make_optimizer,
                                   const nn::ParameterGroups& groups, Where where)
    : Optimizer(trained_groups(module, groups, where), 0, 0, replica.arenas(), where),
      comm_(comm),
      known_("ShardedOptimizer", module),
      purpose_(replica.purpose()),
      summands_(nn::PartOf::summand, "ShardedOptimizer",
                comm.world_size() > 1 ? trained_ones(module) : std::vector<nn::NamedTensor>()) {
  for (const nn::ParameterArena& arena : arenas()) {
    const std::int64_t count = arena.values().numel();
    const std::int64_t unit =
        kCutBytes / static_cast<std::int64_t>(size_bytes(arena.values().dtype()));
    const std::int64_t part = count / unit / comm.world_size() * unit;
    const std::int64_t begin = comm.rank() * part, parts_end = comm.world_size() * part;
    cuts_.push_back({parts_end, optimizer_of(arena, begin, begin + part, make_optimizer, where),
                     optimizer_of(arena, parts_end, count, make_optimizer, where)});
  }
  set_learning_rate(local_optimizers().front()->learning_rate(), where);
  for (nn::Optimizer* optimizer : local_optimizers()) optimizer->take_groups(*this);
}

// Whether the gradients are averages, of which a part may have been cleared.
bool ShardedOptimizer::are_averaged(Where where) const {
  bool has_averages = false, has_others = false;
  for (const nn::ParameterArena& arena : arenas())
    for (const Tensor& parameter : arena.parameters()) {
      const Leaf* const leaf = known_leaf_of(parameter);
      if (!leaf) continue;
      has_averages = has_averages || leaf->is_average;
      has_others = has_others || (!leaf->is_average && leaf->has_gradient());
    }
  RINGRAD_CHECK(!has_averages || !has_others, AutogradError, where,
                "ShardedOptimizer: all gradients must be averages, or none; got new ones beside "
                "averages; call zero_grad() before the backward pass");
  return has_averages;
}

void ShardedOptimizer::average_gradients(Where where) {
  known_.check(where);
  if (are_averaged(where)) return;
  const PurposeScope scope(purpose_);
  for (std::size_t i = 0; i < cuts_.size(); ++i) {
    const auto& [parts_end, own, rest] = cuts_[i];
    arenas()[i].settle();
    const Tensor parts = view::slice(arenas()[i].gradients(), 0, 0, parts_end);
    if (own) comm_.reduce_scatter(gradients_of(*own), parts, ReduceOp::mean, where);
    if (rest) comm_.all_reduce(gradients_of(*rest), ReduceOp::mean, where);
  }
  const Tensor presence = gradient_presence(arenas());
  frozen_later_.mark(arenas(), presence);
  reduce_presence(presence, comm_, where);
  if (FrozenParameters::is_marked(presence)) agree_on_frozen(presence, where);
  adopt_gradients(arenas(), presence);
  for (const nn::ParameterArena& arena : arenas())
    for (const Tensor& parameter : arena.parameters())
      if (Leaf* const leaf = known_leaf_of(parameter)) leaf->is_average = true;
}

void ShardedOptimizer::agree_on_frozen(const Tensor& presence, Where where) {
  std::vector<Tensor> all;
  for (const nn::ParameterArena& arena : arenas())
    all.insert(all.end(), arena.parameters().begin(), arena.parameters().end());
  const auto describe = [&](std::size_t i) { return concat("one of shape ", all[i].shape()); };
  frozen_later_.agree("ShardedOptimizer", presence, describe, comm_, where);
}

void ShardedOptimizer::step(double grad_scale, Where where) {
  fault_step();
  average_gradients(where);
  for (nn::Optimizer* optimizer : local_optimizers())
    optimizer->set_learning_rate(learning_rate(), where);
  Optimizer::step(grad_scale, where);
  const PurposeScope scope(purpose_);
  for (std::size_t i = 0; i < cuts_.size(); ++i) {
    const auto& [parts_end, own, rest] = cuts_[i];
    const Tensor parts = view::slice(arenas()[i].values(), 0, 0, parts_end);
    if (own) comm_.all_gather(parts, values_of(*own), where);
  }
  zero_grad();
}

// Updates the parts of the range that lie in this rank's part and in the rest. The local optimizers
// know nothing of parameters.
void ShardedOptimizer::update(const Range& range, double grad_scale, Where where) {
  const auto& [parts_end, own, rest] = cuts_[range.arena];
  const auto update_within = [&](nn::Optimizer* optimizer, std::int64_t offset) {
    if (!optimizer) return;
    const std::int64_t begin = std::max<std::int64_t>(range.begin - offset, 0);
    const std::int64_t end = std::min(range.end - offset, values_of(*optimizer).numel());
    if (begin < end)
      optimizer->update({0, range.group, begin, end, range.num_steps}, grad_scale, where);
  };
  update_within(own.get(), comm_.rank() * (parts_end / comm_.world_size()));
  update_within(rest.get(), parts_end);
}

double ShardedOptimizer::clip_grad_norm(double max_norm, Where where) {
  nn::check_max_norm(max_norm, where);
  nn::check_not_partial("clip_grad_norm: a ShardedOptimizer's gradients must be the model's",
                        parameters(), {nn::PartOf::summand}, where);
  average_gradients(where);
  kernels::Norm own_norm, norm;
  std::vector<Tensor> gradients;
  for (const auto& [parts_end, own, rest] : cuts_) {
    if (own) own_norm.add(kernels::norm_of(gradients_of(*own), where));
    if (rest) norm.add(kernels::norm_of(gradients_of(*rest), where));
  }
  for (const nn::Optimizer* optimizer : local_optimizers())
    gradients.push_back(gradients_of(*optimizer));
  norm.add(joint_norm(own_norm, comm_, where));
  if (!norm.is_finite()) zero_grad();  // averages, which the next backward pass must not add to
  return nn::clip_to_norm(gradients, norm, max_norm, where);
}

std::int64_t ShardedOptimizer::state_bytes() const {
  std::int64_t bytes = 0;
  for (const nn::Optimizer* optimizer : local_optimizers()) bytes += optimizer->state_bytes();
  return bytes;
}

std::vector<ShardedOptimizer::Part> ShardedOptimizer::parts() const {
  std::vector<Part> all;
  for (std::size_t a = 0; a < cuts_.size(); ++a) {
    const auto& [parts_end, own, rest] = cuts_[a];
    const std::int64_t count = arenas()[a].values().numel(), part = parts_end / comm_.world_size();
    if (own) all.push_back({own.get(), a, comm_.rank() * part, part});
    if (rest) all.push_back({rest.get(), a, parts_end, count - parts_end});
  }
  return all;
}

std::vector<nn::Optimizer*> ShardedOptimizer::local_optimizers() const {
  std::vector<nn::Optimizer*> all;
  for (const Part& part : parts()) all.push_back(part.optimizer);
  return all;
}

// Each part is its optimizer's only parameter, number 0. The parts' steps are not counted; the
// model's are.
nn::StateDict ShardedOptimizer::state_dict() const {
  nn::StateDict state = Optimizer::state_dict();
  const std::vector<Part> parts = this->parts();
  for (std::size_t k = 0; k < parts.size(); ++k)
    for (const auto& [name, tensor] : parts[k].optimizer->state_dict())
      if (name.starts_with("0.") && name != "0.steps")
        state.emplace(concat(k, name.substr(1)), tensor);
  return state;
}

nn::StateDict ShardedOptimizer::part_state(const nn::StateDict& state, std::size_t part) const {
  nn::StateDict result{{"step", state.at("step")},
                       {"0.steps", state.at("step")},
                       {"learning_rate", state.at("learning_rate")}};
  const std::string prefix = concat(part, '.');
  for (const auto& [name, tensor] : state)
    if (name.starts_with(prefix) && name != prefix + "steps")
      result.emplace("0." + name.substr(prefix.size()), tensor);
  return result;
}

void ShardedOptimizer::check_state_dict(const nn::StateDict& given, Where where) const {
  const nn::StateDict state = nn::with_step_counts(given, state_dict());
  nn::check_same_layout("load_state_dict", state_dict(), state, where);
  const std::vector<nn::Optimizer*> local = local_optimizers();
  for (std::size_t k = 0; k < local.size(); ++k)
    local[k]->check_state_dict(part_state(state, k), where);
}

void ShardedOptimizer::load_state_dict(const nn::StateDict& given, Where where) {
  check_state_dict(given, where);
  const nn::StateDict state = nn::with_step_counts(given, state_dict());
  nn::StateDict own = Optimizer::state_dict();
  for (auto& [name, tensor] : own) tensor = state.at(name);
  Optimizer::load_state_dict(own, where);
  const std::vector<nn::Optimizer*> local = local_optimizers();
  for (std::size_t k = 0; k < local.size(); ++k)
    local[k]->load_state_dict(part_state(state, k), where);
}

}  // namespace ringrad
