#include "ringrad/parallel/train/common/same_model.h"

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/parallel/comm/common/same_text.h"

namespace ringrad {
namespace {

// An arena keeps a parameter's order in memory, and is communicated in that order.
std::string describe(const nn::NamedTensor& named) {
  const auto& [name, tensor] = named;
  const std::string text = concat(name, ' ', tensor.dtype(), ' ', tensor.shape());
  return tensor.is_contiguous() ? text : concat(text, " strides ", tensor.strides());
}

}  // namespace

std::string describe_model(const nn::Module& module) {
  std::string text;
  for (const nn::NamedTensor& named : module.named_parameters())
    text += describe(named) + (named.second.requires_grad() ? "\n" : " frozen\n");
  for (const nn::NamedTensor& named : module.named_buffers()) text += describe(named) + '\n';
  return text;
}

void check_same_model(const char* scheme, const nn::Module& module, Communicator& comm,
                      Where where) {
  check_same_text(concat(scheme, ": all ranks must hold the model of rank 0"),
                  describe_model(module), comm, where);
}

void broadcast_value(const Tensor& tensor, Communicator& comm, Where where) {
  const Tensor value = tensor.detach();
  if (value.is_contiguous()) return comm.broadcast(value, 0, where);
  const Tensor in_order = kernels::contiguous(value, where);
  comm.broadcast(in_order, 0, where);
  kernels::copy_(value, in_order, where);
}

void broadcast_buffers(const nn::Module& module, Communicator& comm, Where where) {
  for (const auto& [name, buffer] : module.named_buffers()) broadcast_value(buffer, comm, where);
}

}  // namespace ringrad
