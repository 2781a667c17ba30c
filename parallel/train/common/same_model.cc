#include "ringrad/parallel/train/common/same_model.h"

#include <cstring>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/parallel/comm/common/call_purpose.h"
#include "ringrad/parallel/comm/same_text.h"

namespace ringrad {
namespace {

// An arena keeps a parameter's order in memory, and is communicated in that order.
std::string describe(const nn::NamedTensor& named) {
  const auto& [name, tensor] = named;
  const std::string text = concat(name, ' ', tensor.dtype(), ' ', tensor.shape());
  return tensor.is_contiguous() ? text : concat(text, " strides ", tensor.strides());
}

// The part of a tensor that has each of its elements in memory once: of an expanded axis, the first
// place.
Tensor once_each(Tensor x, Where where) {
  for (int axis = 0; axis < x.dims(); ++axis)
    if (x.strides()[axis] == 0 && x.size(axis) > 1) x = view::slice(x, axis, 0, 1, 1, where);
  return x;
}

// Calls exchange(x) with a contiguous tensor of the same values, and keeps what it leaves there.
template <class Exchange>
void through_contiguous(const Tensor& tensor, Where where, Exchange exchange) {
  const Tensor value = once_each(tensor.detach(), where);
  if (value.is_contiguous()) return exchange(value);
  const Tensor in_order = kernels::contiguous(value, where);
  exchange(in_order);
  kernels::copy_(value, in_order, where);
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

std::uint16_t purpose_of(const char* scheme, const nn::Module& module, Communicator& comm,
                         Where where) {
  const Tensor number = full({1}, take_purpose(), {.dtype = DType::int64, .device = Device()});
  if (comm.world_size() > 1) comm.all_reduce(number, ReduceOp::max, where);
  return name_purpose(number.item<std::int64_t>(),
                      concat("the ", scheme, " of ", module.describe(), " at ", to_string(where)));
}

void broadcast_value(const Tensor& tensor, Communicator& comm, Where where, int root) {
  through_contiguous(tensor, where, [&](const Tensor& x) { comm.broadcast(x, root, where); });
}

void average_value(const Tensor& tensor, Communicator& comm, Where where) {
  through_contiguous(tensor, where,
                     [&](const Tensor& x) { comm.all_reduce(x, ReduceOp::mean, where); });
}

// What is the root's already must not count as changed: a recorded operator may have saved it, as a
// batch norm in evaluation does. On a GPU, comparing would wait for it.
void broadcast_buffers(const nn::Module& module, Communicator& comm, Where where, int root) {
  for (const auto& [name, buffer] : module.named_buffers()) {
    if (buffer.device().is_cuda()) {
      broadcast_value(buffer, comm, where, root);
      continue;
    }
    const Tensor own = once_each(buffer.detach(), where);
    const Tensor before = kernels::contiguous(own, where), value = kernels::clone(before, where);
    comm.broadcast(value, root, where);
    const std::size_t bytes = static_cast<std::size_t>(value.numel()) * size_bytes(value.dtype());
    if (bytes > 0 && std::memcmp(value.raw_data(), before.raw_data(), bytes) != 0)
      kernels::copy_(own, value, where);
  }
}

}  // namespace ringrad
