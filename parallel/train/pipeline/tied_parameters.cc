#include "ringrad/parallel/train/pipeline/tied_parameters.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ringrad/autograd/node.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/nn/arena.h"
#include "ringrad/parallel/comm/same_text.h"
#include "ringrad/parallel/train/common/same_model.h"

namespace ringrad {
namespace {

Tensor find(const StageParameter& parameter, const std::vector<nn::Module*>& stages, Where where) {
  for (const auto& [name, tensor] :
       stages[static_cast<std::size_t>(parameter.stage)]->named_parameters())
    if (name == parameter.name) return tensor;
  throw ValueError(concat("Pipeline: a tied parameter must be one of its stage; got \"",
                          parameter.name, "\" of stage ", parameter.stage),
                   where);
}

void check_tie(const std::vector<StageParameter>& tie, std::size_t num_stages, Where where) {
  RINGRAD_CHECK(tie.size() > 1, ValueError, where,
                "Pipeline: at least two parameters must be tied; got ", tie.size());
  for (const auto& [stage, name] : tie)
    RINGRAD_CHECK(stage >= 0 && static_cast<std::size_t>(stage) < num_stages, ValueError, where,
                  "Pipeline: tied parameters must be of the stages below ", num_stages,
                  "; got stage ", stage, " for \"", name, '"');
}

// This rank's parameter of the tie; undefined if it has none.
Tensor own_parameter(const std::vector<StageParameter>& tie, const std::vector<nn::Module*>& stages,
                     const Communicator& comm, Where where) {
  Tensor own;
  for (const StageParameter& parameter : tie) {
    if (parameter.stage % comm.world_size() != comm.rank()) continue;
    const Tensor found = find(parameter, stages, where);
    RINGRAD_CHECK(!own.defined() || own.is(found), ValueError, where,
                  "Pipeline: tied parameters of one rank must be one tensor; got another for \"",
                  parameter.name, "\" of stage ", parameter.stage);
    own = found;
  }
  return own;
}

}  // namespace

std::vector<std::vector<StageParameter>> all_ties(
    const std::vector<std::vector<StageParameter>>& given, const std::vector<nn::Module*>& stages,
    Where where) {
  std::set<std::pair<int, std::string>> known;
  for (const auto& tie : given)
    for (const auto& [stage, name] : tie)
      RINGRAD_CHECK(known.emplace(stage, name).second, ValueError, where,
                    "Pipeline: a parameter must be in one tie; got \"", name, "\" of stage ", stage,
                    " twice");
  std::vector<std::vector<StageParameter>> found;
  std::map<const TensorImpl*, std::size_t> index;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    if (!stages[stage]) continue;
    for (const auto& [name, tensor] : stages[stage]->named_parameters()) {
      if (known.contains({static_cast<int>(stage), name})) continue;
      const auto [place, is_new] = index.try_emplace(tensor.impl(), found.size());
      if (is_new) found.emplace_back();
      found[place->second].push_back({static_cast<int>(stage), name});
    }
  }
  auto ties = given;
  for (auto& tie : found)
    if (tie.size() > 1) ties.push_back(std::move(tie));
  return ties;
}

TiedParameters::TiedParameters(const std::vector<std::vector<StageParameter>>& ties,
                               const std::vector<nn::Module*>& stages, Communicator& comm,
                               Where where) {
  for (const auto& tie : ties) {
    check_tie(tie, stages.size(), where);
    const Tensor own = own_parameter(tie, stages, comm, where);
    auto group = comm.split(own.defined() ? 0 : -1, 0, where);
    if (!group || group->world_size() == 1) continue;
    check_same_text("Pipeline: tied parameters must be alike",
                    concat(own.dtype(), ' ', own.shape(), own.requires_grad() ? "" : " frozen"),
                    *group, where);
    broadcast_value(own, *group, where);
    ties_.push_back({own, own.requires_grad(), std::move(group)});
  }
}

// The lowest rank's gradient is the sum so far.
void TiedParameters::begin_step() const {
  for (const auto& [parameter, is_trained, group] : ties_)
    if (group->rank() > 0) nn::clear_gradient(parameter);
}

bool TiedParameters::is_repeated(const Tensor& parameter) const {
  return std::any_of(ties_.begin(), ties_.end(), [&](const Tie& tie) {
    return tie.parameter.is(parameter) && tie.group->rank() > 0;
  });
}

void TiedParameters::add_gradients(Where where) const {
  for (const auto& [parameter, is_trained, group] : ties_) {
    RINGRAD_CHECK(
        parameter.requires_grad() == is_trained, AutogradError, where,
        "Pipeline: tied parameters must be trained as they were in the beginning; got one "
        "of shape ",
        parameter.shape(), is_trained ? " that is frozen now" : " that was frozen");
    if (!is_trained) continue;
    const Tensor is_present =
        full({1}, leaf_of(parameter)->has_gradient(), {.dtype = DType::int32, .device = Device()});
    group->all_reduce(is_present, ReduceOp::max, where);
    if (is_present.item<int>() == 0)
      continue;  // no stage has used it, so optimizers leave it alone
    if (!parameter.grad().defined())
      parameter.set_grad(
          zeros(parameter.shape(), {.dtype = parameter.dtype(), .device = parameter.device()}));
    const Tensor gradient = parameter.grad(), in_order = kernels::contiguous(gradient, where);
    group->all_reduce(in_order, ReduceOp::sum, where);
    if (!in_order.is(gradient)) kernels::copy_(gradient, in_order, where);
    parameter.set_grad(gradient);  // also where only another stage has reached it
  }
}

void TiedParameters::abort(const std::string& reason) const noexcept {
  for (const Tie& tie : ties_) tie.group->abort(reason);
}

}  // namespace ringrad
