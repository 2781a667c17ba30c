#include "ringrad/autograd/saved_tensor.h"

#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/node.h"
#include "ringrad/core/view.h"

namespace ringrad {

void detail::check_quiet(const Tensor& x) {
  if (!x.defined()) return;
  const Storage& storage = *x.storage();
  RINGRAD_CHECK(storage.change() <= quiet_time->after || storage.change() > quiet_time->until,
                AutogradError, quiet_time->where, "backward of ", quiet_time->operation,
                ": what the function uses must not change before backward, which calls it again; "
                "got a tensor of shape ",
                x.shape(), " that was changed in place at ", to_string(storage.changed_at()));
}

SavedTensor save(const Tensor& input) {
  if (detail::quiet_time) [[unlikely]]
    detail::check_quiet(input);
  return SavedTensor(input, -1);
}

SavedTensor save_output(const Tensor& output, int index) {
  return SavedTensor(view::alias(output, output.made_at()), index);
}

const Tensor& SavedTensor::get() const {
  if (!tensor_.defined()) return tensor_;
  Node* node = running_node();
  RINGRAD_ASSERT(node);
  RINGRAD_CHECK(tensor_.version() == version_, AutogradError, node->where(), "backward of ",
                node->name(), ": the tensor of shape ", tensor_.shape(), " saved at ",
                to_string(node->where()),
                " must not change before backward; it was changed in place at ",
                to_string(tensor_.storage()->changed_at()));
  if (output_ < 0 || !grad_enabled()) return tensor_;
  Tensor output = view::alias(tensor_, tensor_.made_at());
  set_history(output, Ref<Node>::share(node), output_);
  return keep_while_node_runs(std::move(output));
}

}  // namespace ringrad
