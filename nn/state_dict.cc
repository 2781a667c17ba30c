#include "ringrad/nn/state_dict.h"

#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/kernels/copy/copy.h"

namespace ringrad::nn {

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

void copy_state(const char* operation, const StateDict& own, const StateDict& given, Where where) {
  check_same_layout(operation, own, given, where);
  for (const auto& [name, tensor] : own) kernels::copy_(tensor.detach(), given.at(name), where);
}

}  // namespace ringrad::nn
