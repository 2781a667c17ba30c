#include "parallel/train/same_model.h"

#include <algorithm>
#include <cstdint>

#include "kernels/copy.h"

namespace ringrad {
namespace {

// An arena keeps a parameter's order in memory, and is communicated as it lies there.
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

std::string first_difference(const std::string& ours, const std::string& theirs) {
  std::size_t line = 0;
  for (std::size_t i = 0; i < ours.size() && i < theirs.size() && ours[i] == theirs[i]; ++i)
    if (ours[i] == '\n') line = i + 1;
  const auto line_of = [&](const std::string& text) {
    return line < text.size() ? text.substr(line, text.find('\n', line) - line) : "nothing more";
  };
  return concat('"', line_of(ours), "\" and \"", line_of(theirs), '"');
}

void check_same_model(const char* scheme, const nn::Module& module, Communicator& comm,
                      Where where) {
  const std::string ours = describe_model(module);
  const Tensor length = full({1}, static_cast<std::int64_t>(ours.size()),
                             {.dtype = DType::int64, .device = Device()});
  comm.broadcast(length, 0, where);
  const auto count = length.item<std::int64_t>();
  const Tensor bytes = empty({count}, {.dtype = DType::uint8, .device = Device()});
  if (comm.rank() == 0) std::copy(ours.begin(), ours.end(), bytes.data<std::uint8_t>());
  comm.broadcast(bytes, 0, where);
  const std::string reference(bytes.data<std::uint8_t>(), bytes.data<std::uint8_t>() + count);

  Tensor differing = zeros({comm.world_size()}, {.dtype = DType::int32, .device = Device()});
  differing.data<std::int32_t>()[comm.rank()] = ours != reference;
  comm.all_reduce(differing, ReduceOp::sum, where);
  std::string ranks;
  for (int rank = 0; rank < comm.world_size(); ++rank)
    if (differing.data<std::int32_t>()[rank]) ranks += concat(' ', rank);
  RINGRAD_CHECK(
      ranks.empty(), CollectiveError, where, scheme,
      ": all ranks must hold the model of rank 0; different on rank", ranks,
      ours == reference ? std::string() : concat(", first at ", first_difference(ours, reference)));
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
