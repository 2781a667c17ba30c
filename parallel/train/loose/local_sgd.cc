#include "ringrad/parallel/train/loose/local_sgd.h"

#include <algorithm>
#include <string>

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/parallel/comm/common/call_purpose.h"
#include "ringrad/parallel/comm/gather_values.h"
#include "ringrad/parallel/comm/record/fault_injection.h"
#include "ringrad/parallel/train/common/same_model.h"

namespace ringrad {
namespace {

const LocalSGDOptions& checked(const LocalSGDOptions& options, Where where) {
  RINGRAD_CHECK(options.period > 0, ValueError, where,
                "LocalSGD: the period must be positive; got ", options.period);
  RINGRAD_CHECK(options.num_synchronous_steps >= 0, ValueError, where,
                "LocalSGD: num_synchronous_steps must not be negative; got ",
                options.num_synchronous_steps);
  return options;
}

}  // namespace

LocalSGD::LocalSGD(nn::Module& module, Communicator& comm, const LocalSGDOptions& options,
                   Where where)
    : module_(module),
      comm_(comm),
      options_(checked(options, where)),
      replica_("LocalSGD", module, comm, where),
      averaged_(versions()) {}

bool LocalSGD::step(Where where) {
  fault_step();
  ++num_steps_;
  const bool is_due = this->is_due();
  if (is_due) sync(where);
  return is_due;
}

bool LocalSGD::is_due() const {
  const std::int64_t num_local = num_steps_ - options_.num_synchronous_steps;
  return num_local <= 0 || num_local % options_.period == 0;
}

// Leaves equal values alone: the average of three equal numbers need not have their bits.
void LocalSGD::sync(Where where) {
  const PurposeScope scope(replica_.purpose());
  check_equal_steps(where);
  if (num_steps_ == last_average_) return;
  replica_.settle(where);
  const std::vector<Tensor> tensors = this->tensors();
  const std::vector<bool> has_changed = changed_on_any_rank(where);
  std::vector<std::pair<Tensor, Tensor>> kept;
  std::size_t i = 0;
  for (const nn::ParameterArena& arena : replica_.arenas())
    for (const Tensor& parameter : arena.parameters())
      if (!has_changed[i++])
        kept.emplace_back(parameter.detach(), kernels::clone(parameter.detach(), where));
  for (const nn::ParameterArena& arena : replica_.arenas())
    comm_.all_reduce(arena.values(), ReduceOp::mean, where);
  replica_.mark_changed(where);
  for (const auto& [parameter, value] : kept) kernels::copy_(parameter, value, where);
  for (; i < tensors.size(); ++i) {
    if (!has_changed[i]) continue;
    if (is_floating(tensors[i].dtype()))
      average_value(tensors[i], comm_, where);
    else
      broadcast_value(tensors[i], comm_, where);
  }
  last_average_ = num_steps_;
  averaged_ = versions();
}

// What is averaged: the parameters, in the order of the arenas, and the buffers.
std::vector<Tensor> LocalSGD::tensors() const {
  std::vector<Tensor> all;
  for (const nn::ParameterArena& arena : replica_.arenas())
    all.insert(all.end(), arena.parameters().begin(), arena.parameters().end());
  if (options_.average_buffers)
    for (const auto& [name, buffer] : module_.named_buffers()) all.push_back(buffer);
  return all;
}

std::vector<LocalSGD::Version> LocalSGD::versions() const {
  std::vector<Version> all;
  for (const Tensor& tensor : tensors()) all.emplace_back(tensor.storage().get(), tensor.version());
  return all;
}

// Of tensors(). Those that no rank has changed since the latest average are equal on all ranks.
std::vector<bool> LocalSGD::changed_on_any_rank(Where where) const {
  const auto now = versions();
  const Tensor changed = ones({static_cast<std::int64_t>(now.size())},
                              {.dtype = DType::uint8, .device = Device()}, where);
  auto* const bytes = changed.data<std::uint8_t>();
  for (std::size_t i = 0; i < std::min(now.size(), averaged_.size()); ++i)
    bytes[i] = now[i] != averaged_[i];
  if (!now.empty()) comm_.all_reduce(changed, ReduceOp::max, where);
  return std::vector<bool>(bytes, bytes + now.size());
}

// Without this check, ranks would average at different steps.
void LocalSGD::check_equal_steps(Where where) const {
  const std::vector<std::int64_t> all = gather_values(comm_, num_steps_, where);
  bool equal = true;
  std::string list;
  for (int rank = 0; rank < comm_.world_size(); ++rank) {
    const std::int64_t theirs = all[static_cast<std::size_t>(rank)];
    equal = equal && theirs == num_steps_;
    list += concat(rank > 0 ? ", " : "", theirs, " on rank ", comm_.rank_names()(rank));
  }
  RINGRAD_CHECK(equal, CollectiveError, where,
                "LocalSGD: all ranks must have made equally many steps when they average; got ",
                list);
}

nn::StateDict LocalSGD::state_dict() const {
  const Options number{.dtype = DType::int64, .device = Device()};
  return {{"steps", scalar_tensor(num_steps_, number)},
          {"average", scalar_tensor(last_average_, number)}};
}

void LocalSGD::check_state_dict(const nn::StateDict& state, Where where) const {
  nn::check_same_layout("load_state_dict", state_dict(), state, where);
  const auto steps = state.at("steps").item<std::int64_t>(),
             average = state.at("average").item<std::int64_t>();
  RINGRAD_CHECK(0 <= average && average <= steps, ValueError, where,
                "LocalSGD: the latest average must not come after the latest step; got ", average,
                " and ", steps);
}

void LocalSGD::load_state_dict(const nn::StateDict& state, Where where) {
  check_state_dict(state, where);
  num_steps_ = state.at("steps").item<std::int64_t>();
  last_average_ = state.at("average").item<std::int64_t>();
}

}  // namespace ringrad
