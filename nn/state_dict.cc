#include "ringrad/nn/state_dict.h"

#include <set>

#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/overlap.h"

namespace ringrad::nn {

Tensor state_number(std::int64_t value) {
  return scalar_tensor(value, {.dtype = DType::int64, .device = Device()});
}

Tensor state_number(double value) {
  return scalar_tensor(value, {.dtype = DType::float64, .device = Device()});
}

StateDict clone_state(const StateDict& state, Where where) {
  StateDict copies;
  for (const auto& [name, tensor] : state) copies.emplace(name, kernels::clone(tensor, where));
  return copies;
}

void check_same_layout(const char* operation, const StateDict& own, const StateDict& given,
                       Where where) {
  std::string missing, unexpected, shapes, dtypes;
  for (const auto& [name, tensor] : given)
    if (!own.contains(name)) unexpected += ' ' + quoted_bytes(name);
  for (const auto& [name, tensor] : own) {
    const auto found = given.find(name);
    if (found == given.end()) {
      missing += ' ' + quoted_bytes(name);
      continue;
    }
    const Tensor& value = found->second;
    RINGRAD_CHECK(tensor.defined() && value.defined(), ValueError, where, operation,
                  ": tensors must be defined; got an undefined ", quoted_bytes(name));
    RINGRAD_CHECK(!repeats_elements(tensor.shape(), tensor.strides()), ValueError, where, operation,
                  ": each own element must have a place of its own; got ", quoted_bytes(name),
                  " of shape ", tensor.shape(), " with strides ", tensor.strides());
    if (!(value.shape() == tensor.shape()))
      shapes += concat(' ', quoted_bytes(name), ' ', value.shape(), " for ", tensor.shape());
    if (value.dtype() != tensor.dtype())
      dtypes += concat(' ', quoted_bytes(name), ' ', value.dtype(), " for ", tensor.dtype());
  }
  const bool same_names = missing.empty() && unexpected.empty();
  if (same_names && shapes.empty() && dtypes.empty()) return;
  std::string text =
      concat(operation,
             ": names, shapes and dtypes must match; missing:", missing.empty() ? " none" : missing,
             "; unexpected:", unexpected.empty() ? " none" : unexpected);
  if (!shapes.empty()) text += "; got other shapes:" + shapes;
  if (!dtypes.empty()) text += "; got other dtypes:" + dtypes;
  if (!same_names) throw ValueError(text, where);
  if (!shapes.empty()) throw ShapeError(text, where);
  throw DTypeError(text, where);
}

namespace {

// The memory that x lies in, with all that lies beside it.
const Storage* storage_of(const Tensor& x) {
  const Storage* memory = x.storage().get();
  while (memory->whole()) memory = memory->whole().get();
  return memory;
}

}  // namespace

void copy_state(const char* operation, const StateDict& own, const StateDict& given, Where where) {
  check_same_layout(operation, own, given, where);
  std::set<const Storage*> own_memory;
  for (const auto& [name, tensor] : own) own_memory.insert(storage_of(tensor));
  StateDict values = given;
  for (auto& [name, value] : values)  // all is read before anything is written
    if (own_memory.contains(storage_of(value)) && !kernels::same_elements(own.at(name), value))
      value = kernels::clone(value, where);
  for (const auto& [name, tensor] : own) kernels::copy_(tensor.detach(), values.at(name), where);
}

}  // namespace ringrad::nn
