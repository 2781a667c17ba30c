#include "ringrad/autograd/anomaly.h"

#include "ringrad/autograd/grad_mode.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/kernels/reduce/reduce.h"

namespace ringrad::detail {

static bool has_nan(const Tensor& x, Where where) {
  if (!x.defined() || !is_floating(x.dtype()) || x.numel() == 0) return false;
  return kernels::max(kernels::unary(ops::IsNan(), x, where), {}, false, where).item<bool>();
}

void check_result(const Tensor& y, const Node& node) {
  RINGRAD_CHECK(!has_nan(y, node.where()), AutogradError, node.where(), node.name(),
                ": while anomalies are detected, no result may hold a NaN; got one of shape ",
                y.shape(), " that does");
}

void check_gradients(std::span<const Tensor> grad_inputs, const Node& node, Where where) {
  for (std::size_t i = 0; i < grad_inputs.size(); ++i)
    RINGRAD_CHECK(!has_nan(grad_inputs[i], where), AutogradError, where, "backward of ",
                  node.name(), " (", to_string(node.where()),
                  "): while anomalies are detected, no gradient may hold a NaN; got one for input ",
                  i, " that does");
}

}  // namespace ringrad::detail
