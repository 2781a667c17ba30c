#include "ringrad/autograd/activation_checkpoint.h"

#include <memory>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/split_backward.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/random/random.h"
#include "ringrad/core/view.h"

namespace ringrad {
namespace {

// The inputs without history; those whose originals require a gradient require one here.
std::vector<Tensor> as_leaves(const std::vector<SavedTensor>& saved,
                              const std::vector<bool>& needs) {
  std::vector<Tensor> leaves;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    leaves.push_back(saved[i].get().detach());
    if (needs[i]) leaves.back().set_requires_grad();
  }
  return leaves;
}

// The first half of a split pass, for a segment that was run again: the segment's leaves wait for
// the second half.
void backward_first_half(BackwardContext& context, const Tensor& y,
                         const std::vector<Tensor>& leaves) {
  std::vector<Tensor> inputs;
  for (const Tensor& x : leaves)
    if (x.requires_grad()) inputs.push_back(x);
  auto [grads, weights] =
      backward_inputs({&y, 1}, {&context.grad_output(), 1}, inputs, context.where());
  for (std::size_t i = 0, next = 0; i < leaves.size(); ++i)
    if (leaves[i].requires_grad()) context.set(static_cast<int>(i), grads[next++]);
  leave_to_second_half([rest = std::make_shared<WeightGradients>(std::move(weights)),
                        where = context.where()] { rest->accumulate(where); });
}

// Resets the default generator to its state `then`, until the end of the scope.
class RewoundGenerator {
 public:
  explicit RewoundGenerator(const Generator& then)
      : now_(std::exchange(default_generator(), then)) {}
  ~RewoundGenerator() { default_generator() = now_; }
  RewoundGenerator(const RewoundGenerator&) = delete;
  RewoundGenerator& operator=(const RewoundGenerator&) = delete;

 private:
  Generator now_;
};

}  // namespace

Tensor activation_checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                             const std::vector<Tensor>& inputs, Where where) {
  if (!grad_enabled()) return f(inputs);
  // Random numbers differ at each replay and cannot be drawn again.
  refuse_while_capturing("activation_checkpoint()", where);
  const Generator before = default_generator();
  Tensor y;
  {
    const NoGradGuard guard;
    y = f(inputs);
  }
  // f may return a tensor that other code holds as well; the recorded result must be a separate
  // object.
  y = view::alias(y, where);

  std::vector<SavedTensor> saved;
  std::vector<bool> needs;
  for (const Tensor& x : inputs) {
    saved.push_back(save(x));
    needs.push_back(x.requires_grad());
  }
  record("activation_checkpoint", where, {&y, 1}, inputs,
         [f, saved, needs, before, mixed = autocast_dtype()](BackwardContext& context) {
           RINGRAD_CHECK(!grad_enabled(), AutogradError, context.where(),
                         "backward of activation_checkpoint: create_graph must be off; got on");
           const std::vector<Tensor> leaves = as_leaves(saved, needs);
           RINGRAD_CHECK(!computing_grad(), AutogradError, context.where(),
                         "backward of activation_checkpoint: it must run for backward(), since it "
                         "adds to the leaves that the segment uses; got grad()");
           Tensor again;
           {
             const RewoundGenerator generator(before);
             const EnableGradGuard guard;
             const Autocast as_then(mixed);
             again = f(leaves);
           }
           if (!again.requires_grad()) return;
           if (in_first_half()) return backward_first_half(context, again, leaves);
           again.backward(context.grad_output(), {}, context.where());
           for (std::size_t i = 0; i < leaves.size(); ++i)
             if (needs[i]) context.set(static_cast<int>(i), leaves[i].grad());
         });
  return y;
}

}  // namespace ringrad
