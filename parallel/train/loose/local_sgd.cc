#include "ringrad/parallel/train/loose/local_sgd.h"

#include <string>
#include <vector>

#include "ringrad/parallel/comm/common/call_purpose.h"
#include "ringrad/parallel/comm/common/gather_values.h"
#include "ringrad/parallel/comm/job/fault_injection.h"
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
      replica_("LocalSGD", module, comm, where) {}

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
  for (const nn::ParameterArena& arena : replica_.arenas())
    comm_.all_reduce(arena.values(), ReduceOp::mean, where);
  replica_.mark_changed(where);
  if (options_.average_buffers) average_buffers(where);
  last_average_ = num_steps_;
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

void LocalSGD::average_buffers(Where where) const {
  for (const auto& [name, buffer] : module_.named_buffers()) {
    if (is_floating(buffer.dtype()))
      average_value(buffer, comm_, where);
    else
      broadcast_value(buffer, comm_, where);
  }
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
