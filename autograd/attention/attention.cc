#include "ringrad/autograd/attention/attention.h"

#include "ringrad/autograd/attention/composed_attention.h"
#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/function.h"
#include "ringrad/kernels/attention/attention.h"

namespace ringrad {

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options, Generator& generator,
                                    Where where) {
  if (autocasting()) {
    const auto attend = [&](auto&... narrow) {
      return scaled_dot_product_attention(narrow..., options, generator, where);
    };
    return with_narrowed(where, attend, q, k, v);
  }
  const auto problem = kernels::attention_problem(q, k, v, options, where);
  const auto dropout = kernels::AttentionDropout::reserve(problem, options.dropout, generator);
  if (needs_grad(options.mask))
    return composed_attention(q, k, v, options, problem, dropout, where);
  const auto result = kernels::attention(q, k, v, options, dropout, where);
  Tensor y = result.output;
  if (needs_grad(q, k, v)) {
    AttentionOptions without_mask = options;
    without_mask.mask = {};
    record("scaled_dot_product_attention", where, y, {&q, &k, &v},
           [q = save(q), k = save(k), v = save(v), mask = save(options.mask), y = save_output(y),
            statistics = result.statistics, without_mask, problem, dropout,
            where](BackwardContext& context) {
             AttentionOptions complete = without_mask;
             complete.mask = mask.get();
             auto gradients =
                 grad_enabled()
                     ? composed_attention_gradients(context.grad_output(), q.get(), k.get(),
                                                    v.get(), complete, problem, dropout, where)
                     : kernels::attention_backward(context.grad_output(), q.get(), k.get(), v.get(),
                                                   {y.get(), statistics}, complete, dropout, where);
             context.set(0, std::move(gradients.q));
             context.set(1, std::move(gradients.k));
             context.set(2, std::move(gradients.v));
           });
  }
  return y;
}

}  // namespace ringrad
