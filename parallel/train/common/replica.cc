#include "ringrad/parallel/train/common/replica.h"

#include "ringrad/parallel/comm/common/call_purpose.h"
#include "ringrad/parallel/train/common/same_arenas.h"
#include "ringrad/parallel/train/common/same_model.h"

namespace ringrad {

Replica::Replica(const char* scheme, const nn::Module& module, Communicator& comm, Where where)
    : parameters_(scheme, module) {
  check_same_model(scheme, module, comm, where);
  purpose_ = purpose_of(scheme, module, comm, where);
  const PurposeScope scope(purpose_);
  std::vector<Tensor> trained, frozen;
  for (const Tensor& parameter : module.parameters())
    (parameter.requires_grad() ? trained : frozen).push_back(parameter);
  arenas_ = make_same_arenas(trained, comm, {}, where);
  for (const nn::ParameterArena& arena : arenas_) comm.broadcast(arena.values(), 0, where);
  for (const Tensor& parameter : frozen) broadcast_value(parameter, comm, where);
  broadcast_buffers(module, comm, where);
  mark_changed(where);
}

void Replica::settle(Where where) const {
  for (const nn::ParameterArena& arena : arenas_) arena.settle();
  parameters_.check(where);
}

void Replica::mark_changed(Where where) const {
  for (const nn::ParameterArena& arena : arenas_)
    for (const Tensor& parameter : arena.parameters()) parameter.storage()->mark_changed(where);
}

}  // namespace ringrad
