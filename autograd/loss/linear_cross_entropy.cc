#include "ringrad/autograd/loss/linear_cross_entropy.h"

#include <algorithm>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/constant.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/index/index_select.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/kernels/index/indices.h"
#include "ringrad/kernels/loss/cross_entropy.h"
#include "ringrad/kernels/matmul/matmul.h"
#include "ringrad/kernels/reduce/reduce.h"

namespace ringrad {
namespace {

constexpr std::int64_t kFewestRows = 64;  // products of fewer rows waste the machine

struct Inputs {
  Tensor x, weight, targets, bias;
  CrossEntropyOptions options;

  std::int64_t rows() const { return x.shape()[0]; }
  std::int64_t rows_per_chunk() const {
    const std::int64_t D = x.shape()[1], V = weight.shape()[0];
    return std::min(rows(), std::max(kFewestRows, rows() * D / V));
  }
};

struct Wanted {
  bool x, weight, bias;
  bool any() const { return x || weight || bias; }
};

// Gradients of the sum of g_b loss_b. Those of the parameters add up chunks in `math`.
struct Gradients {
  Tensor x, weight, bias;

  Gradients(const Inputs& in, const Wanted& wanted, DType math, Where where) {
    const Options sums{.dtype = math, .device = in.x.device()};
    if (wanted.x) x = empty_like(in.x, where);
    if (wanted.weight) weight = zeros(in.weight.shape(), sums, where);
    if (wanted.bias) bias = zeros(in.bias.shape(), sums, where);
  }

  // Adds the chunk of rows [begin, end), whose scores have this gradient.
  void add(const Inputs& in, std::int64_t begin, std::int64_t end, const Tensor& grad_scores,
           Where where) const {
    const Tensor grad = kernels::cast(grad_scores, in.x.dtype(), where);
    if (x.defined()) kernels::matmul_out(grad, in.weight, {}, view::slice(x, 0, begin, end), where);
    if (weight.defined())
      kernels::add_(
          weight,
          kernels::matmul(view::transpose(grad, 0, 1), view::slice(in.x, 0, begin, end), {}, where),
          1, where);
    if (bias.defined()) kernels::add_(bias, kernels::sum(grad_scores, {0}, false, where), 1, where);
  }
};

// The losses of all rows, and what their gradients add up to: that of sum_b grads[b] loss_b. grads
// is undefined in a forward pass, where it means 1; then the gradients are computed if wanted.
struct Result {
  Tensor losses;  // (N), in the dtype of the arithmetic
  Gradients gradients;
};
Result run_chunks(const Inputs& in, const Wanted& wanted, const Tensor& grads, Where where) {
  const DType math = math_dtype(in.x.dtype());
  const Options math_options{.dtype = math, .device = in.x.device()};
  Result result{empty({in.rows()}, math_options, where), Gradients(in, wanted, math, where)};
  CrossEntropyOptions per_row = in.options;
  per_row.reduction = Reduction::none;
  if (per_row.weight.defined()) per_row.weight = kernels::cast(per_row.weight, math, where);
  for (std::int64_t begin = 0; begin < in.rows(); begin += in.rows_per_chunk()) {
    const std::int64_t end = std::min(in.rows(), begin + in.rows_per_chunk());
    const auto chunk = [&](const Tensor& all) { return view::slice(all, 0, begin, end); };
    const Tensor scores = kernels::cast(
        kernels::matmul(chunk(in.x), view::transpose(in.weight, 0, 1), {.bias = in.bias}, where),
        math, where);
    const auto [losses, statistics] =
        kernels::cross_entropy(scores, chunk(in.targets), per_row, where);
    kernels::copy_(chunk(result.losses), losses, where);
    if (!wanted.any()) continue;
    const Tensor grad_losses =
        grads.defined() ? chunk(grads) : ones({end - begin}, math_options, where);
    result.gradients.add(in, begin, end,
                         kernels::cross_entropy_backward(grad_losses, scores, chunk(in.targets),
                                                         statistics, per_row, where),
                         where);
  }
  return result;
}

// The divisor of a mean: the sum of the targets' weights over the rows that count.
Tensor sum_of_weights(const Inputs& in, DType math, Where where) {
  const Tensor counts = in.targets != in.options.ignore_index;
  if (!in.options.weight.defined()) return sum(to(counts, math), {}, false, where);
  const Tensor classes = ringrad::where(counts, in.targets, 0);
  const Tensor weights = index_select(to(in.options.weight, math), 0, classes, where);
  return sum(ringrad::where(counts, weights, 0), {}, false, where);
}

struct SavedInputs {
  SavedTensor x, weight, targets, bias, class_weight;
  CrossEntropyOptions options;
  DType dtype;

  explicit SavedInputs(const Inputs& in)
      : x(save(in.x)),
        weight(save(in.weight)),
        targets(save(in.targets)),
        bias(save(in.bias)),
        class_weight(save(in.options.weight)),
        options(in.options),
        dtype(in.x.dtype()) {
    options.weight = {};
  }
  Inputs get() const {
    Inputs in{x.get(), weight.get(), targets.get(), bias.get(), options};
    in.options.weight = class_weight.get();
    return in;
  }
};

// The gradients times `scale`, if it is defined.
void set_gradients(BackwardContext& context, const Gradients& gradients, const Tensor& scale,
                   DType dtype) {
  const auto scaled = [&](const Tensor& sum) {
    return to(scale.defined() ? sum * scale : sum, dtype);
  };
  if (context.needs(0)) context.set(0, scaled(gradients.x));
  if (context.needs(1)) context.set(1, scaled(gradients.weight));
  if (context.needs(2)) context.set(2, scaled(gradients.bias));
}

// Composed of recorded operators, on all scores at once.
void backward_recorded(BackwardContext& context, const Inputs& in, const Tensor& divisor) {
  const DType math = math_dtype(in.x.dtype());
  const Tensor scores = to(linear(in.x, in.weight, in.bias), math);
  CrossEntropyOptions options = in.options;
  if (options.weight.defined()) options.weight = to(options.weight, math);
  const Tensor grad = to(detail::cross_entropy_gradient(to(context.grad_output(), math), scores,
                                                        in.targets, divisor, options),
                         in.x.dtype());
  if (context.needs(0)) context.set(0, matmul(grad, in.weight));
  if (context.needs(1)) context.set(1, matmul(transpose(grad, 0, 1), in.x));
  if (context.needs(2)) context.set(2, sum(grad, {0}));
}

void check_arguments(const Inputs& in, Where where) {
  constexpr const char* kName = "linear_cross_entropy";
  check_floating(kName, in.x, where);
  check_same_dtype(kName, in.x, in.weight, where);
  check_same_device(kName, in.x, in.weight, where);
  check_same_device(kName, in.x, in.targets, where);
  RINGRAD_CHECK(in.x.dims() == 2 && in.weight.dims() == 2 &&
                    in.x.shape()[1] == in.weight.shape()[1] && in.weight.shape()[0] > 0,
                ShapeError, where, kName,
                ": x must be (N, D) and linear_weight (V, D), with a class; got ", in.x.shape(),
                " and ", in.weight.shape());
  const std::int64_t V = in.weight.shape()[0];
  RINGRAD_CHECK(in.targets.shape() == Shape{in.rows()}, ShapeError, where, kName,
                ": targets must hold one class per row of x; got targets ", in.targets.shape(),
                " and x ", in.x.shape());
  RINGRAD_CHECK(in.options.label_smoothing >= 0 && in.options.label_smoothing <= 1, ValueError,
                where, kName, ": label_smoothing must be in [0, 1]; got ",
                in.options.label_smoothing);
  for (const Tensor& vector : {in.bias, in.options.weight}) {
    if (!vector.defined()) continue;
    check_same_dtype(kName, in.x, vector, where);
    check_same_device(kName, in.x, vector, where);
    RINGRAD_CHECK(vector.shape() == Shape{V}, ShapeError, where, kName,
                  ": linear_bias and weight must hold one number per class; got ", vector.shape(),
                  " for ", V, " classes");
  }
  kernels::check_indices(kName, "targets", in.targets, V, where, in.options.ignore_index);
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& x, const Tensor& linear_weight, const Tensor& targets,
                            const Tensor& linear_bias, const CrossEntropyOptions& options,
                            Where where) {
  check_constant("linear_cross_entropy", "weight", options.weight, where);
  if (autocasting()) {  // products in 16 bits, the loss in float32
    CrossEntropyOptions narrow = options;
    narrow.weight = narrowed(options.weight, where);
    const auto loss = [&](auto& a, auto& weight, auto& bias) {
      return linear_cross_entropy(a, weight, targets, bias, narrow, where);
    };
    return to(with_narrowed(where, loss, x, linear_weight, linear_bias), DType::float32, where);
  }
  const Inputs in{x, linear_weight, targets, linear_bias, options};
  check_arguments(in, where);
  const bool reduced = options.reduction != Reduction::none;
  const bool recorded = needs_grad(x, linear_weight, linear_bias);
  const auto wants = [&](const Tensor& input) {
    return recorded && input.defined() && input.requires_grad();
  };
  const Wanted wanted{wants(x), wants(linear_weight), wants(linear_bias)};
  const DType math = math_dtype(x.dtype());
  Tensor loss, divisor;
  const auto [losses, gradients] = run_chunks(in, reduced ? wanted : Wanted{}, {}, where);
  {
    const NoGradGuard not_recorded;
    divisor = options.reduction == Reduction::mean
                  ? sum_of_weights(in, math, where)
                  : ones({}, {.dtype = math, .device = x.device()}, where);
    const Tensor value = reduced ? sum(losses, {}, false, where) / divisor : losses;
    loss = to(value, x.dtype(), where);
  }
  if (recorded)
    record("linear_cross_entropy", where, loss, {&x, &linear_weight, &linear_bias},
           [saved = SavedInputs(in), gradients = gradients, divisor, reduced,
            wanted](BackwardContext& context) {
             if (grad_enabled()) return backward_recorded(context, saved.get(), divisor);
             const Tensor grad = to(context.grad_output(), divisor.dtype());
             if (reduced) {
               // a mean over nothing is constant
               const Tensor scale = ringrad::where(divisor == 0, 0, grad / divisor);
               return set_gradients(context, gradients, scale, saved.dtype);
             }
             const Tensor grads = kernels::contiguous(grad);
             const Result again = run_chunks(saved.get(), wanted, grads, Where::current());
             set_gradients(context, again.gradients, {}, saved.dtype);
           });
  return loss;
}

}  // namespace ringrad
