#include "ringrad/nn/optimizer/exponential_moving_average.h"

#include <map>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/optimizer/optimizer_step.h"

namespace ringrad::nn {

ExponentialMovingAverage::ExponentialMovingAverage(const Module& module,
                                                   const AverageOptions& options, Where where)
    : decay_(options.decay) {
  RINGRAD_CHECK(decay_ >= 0 && decay_ <= 1, ValueError, where,
                "ExponentialMovingAverage: decay must be in [0, 1]; got ", decay_);
  std::vector<Tensor> trained;
  std::map<const TensorImpl*, std::string> name_of;
  for (const auto& [name, parameter] : module.named_parameters()) {
    if (!parameter.requires_grad()) continue;
    trained.push_back(parameter);
    name_of.emplace(parameter.impl(), name);
  }
  RINGRAD_CHECK(!trained.empty(), ValueError, where,
                "ExponentialMovingAverage: the module must have a trained parameter; got none");
  arenas_ = make_arenas(trained, {}, where);
  for (const ParameterArena& arena : arenas_) {
    const Tensor& values = arena.values();
    averages_.push_back(empty(
        values.shape(),
        {.dtype = kernels::optimizer_state_dtype(values.dtype()), .device = values.device()}));
    kernels::copy_(averages_.back(), values, where);
    names_.emplace_back();
    for (const Tensor& parameter : arena.parameters())
      names_.back().push_back(name_of.at(parameter.impl()));
  }
}

void ExponentialMovingAverage::check_in_place(Where where) const {
  for (const ParameterArena& arena : arenas_)
    for (std::size_t i = 0; i < arena.parameters().size(); ++i)
      RINGRAD_CHECK(arena.is_in_place(i), AutogradError, where,
                    "ExponentialMovingAverage: parameters must stay where they were; got one of "
                    "shape ",
                    arena.parameters()[i].shape(), " that was moved; make the average after to()");
}

// SGD that minimises |average - weights|^2 / 2: its gradient is 1 * average + (-1) * weights. It
// begins at the one that the result is nearer to, since x - 1 * (x - y) loses a y much smaller than
// x.
void ExponentialMovingAverage::update(Where where) {
  check_in_place(where);
  for (std::size_t a = 0; a < arenas_.size(); ++a) {
    Tensor weights = arenas_[a].values();
    const bool begins_at_weights = decay_ < 0.5;
    if (begins_at_weights || weights.dtype() != averages_[a].dtype()) {
      weights = empty(weights.shape(), {.dtype = averages_[a].dtype(), .device = weights.device()},
                      where);
      kernels::copy_(weights, arenas_[a].values(), where);
    }
    const Tensor &begin = begins_at_weights ? weights : averages_[a],
                 &end = begins_at_weights ? averages_[a] : weights;
    const double rate = begins_at_weights ? decay_ : 1 - decay_;
    kernels::sgd_step(begin, end, {}, {.learning_rate = rate, .weight_decay = 1, .grad_scale = -1},
                      where);
    if (begins_at_weights) kernels::copy_(averages_[a], weights, where);
  }
}

void ExponentialMovingAverage::set_values(const std::vector<Tensor>& values, Where where) const {
  check_in_place(where);
  for (std::size_t a = 0; a < arenas_.size(); ++a) {
    kernels::copy_(arenas_[a].values(), values[a], where);
    for (const Tensor& parameter : arenas_[a].parameters())
      parameter.storage()->mark_changed(where);
  }
}

void ExponentialMovingAverage::apply(Where where) const { set_values(averages_, where); }

ExponentialMovingAverage::Applied::Applied(const ExponentialMovingAverage& average, Where where)
    : average_(average) {
  for (const ParameterArena& arena : average_.arenas_) {
    const Tensor& values = arena.values();
    own_.push_back(
        empty(values.shape(), {.dtype = values.dtype(), .device = values.device()}, where));
    kernels::copy_(own_.back(), values, where);
  }
  average_.apply(where);
}

// A parameter that was moved meanwhile keeps the average: a destructor cannot report it.
ExponentialMovingAverage::Applied::~Applied() {
  try {
    average_.set_values(own_, Where::current());
  } catch (const Error&) {
  }
}

StateDict ExponentialMovingAverage::state_dict() const {
  StateDict state;
  for (std::size_t a = 0; a < arenas_.size(); ++a)
    for (std::size_t i = 0; i < names_[a].size(); ++i) {
      const Tensor& parameter = arenas_[a].parameters()[i];
      state.emplace(names_[a][i],
                    view::as_strided(averages_[a], parameter.shape(), parameter.strides(),
                                     arenas_[a].slices()[i].offset));
    }
  return state;
}

void ExponentialMovingAverage::check_state_dict(const StateDict& state, Where where) const {
  check_same_layout("load_state_dict", state_dict(), state, where);
}

void ExponentialMovingAverage::load_state_dict(const StateDict& state, Where where) {
  copy_state("load_state_dict", state_dict(), state, where);
}

}  // namespace ringrad::nn
