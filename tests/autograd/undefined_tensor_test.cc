// An undefined tensor, such as the gradient of a leaf that no backward pass has reached, causes a
// typed error that names the user's line: in every operator that takes a tensor, and for every
// operand.

#include <functional>
#include <vector>

#include "ringrad/autograd/attention/attention.h"
#include "ringrad/autograd/attention/rotary_embedding.h"
#include "ringrad/autograd/broadcast.h"
#include "ringrad/autograd/convolution/convolution.h"
#include "ringrad/autograd/convolution/pool.h"
#include "ringrad/autograd/dropout.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/flip.h"
#include "ringrad/autograd/hooks.h"
#include "ringrad/autograd/index/embedding.h"
#include "ringrad/autograd/index/gather.h"
#include "ringrad/autograd/index/index_select.h"
#include "ringrad/autograd/index/mask.h"
#include "ringrad/autograd/index/scatter.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/loss/ctc_loss.h"
#include "ringrad/autograd/loss/embedding_loss.h"
#include "ringrad/autograd/loss/linear_cross_entropy.h"
#include "ringrad/autograd/loss/pointwise_loss.h"
#include "ringrad/autograd/loss/softmax.h"
#include "ringrad/autograd/matmul/contraction.h"
#include "ringrad/autograd/matmul/einsum.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/norm/group_norm.h"
#include "ringrad/autograd/norm/row_norm.h"
#include "ringrad/autograd/order/sample.h"
#include "ringrad/autograd/order/scan.h"
#include "ringrad/autograd/order/sort.h"
#include "ringrad/autograd/order/unique.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/autograd/shape/diagonal.h"
#include "ringrad/autograd/shape/pad.h"
#include "ringrad/autograd/shape/repeat.h"
#include "ringrad/autograd/shape/roll.h"
#include "ringrad/autograd/shape/unfold.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

TEST(UndefinedTensorTest, IsNamedAtTheUsersLineByEveryOperator) {
  const Tensor none, x = ones({2, 2}), image = ones({1, 1, 4, 4}), filter = ones({1, 1, 3, 3});
  const Tensor index = zeros({2}, {.dtype = DType::int64});
  const Tensor indices = zeros({2, 2}, {.dtype = DType::int64});
  const std::function<void()> calls[] = {
      [&] { none + x; },
      [&] { x* none; },
      [&] { none * 2; },
      [&] { 2 / none; },
      [&] { -none; },
      [&] { none < x; },
      [&] { mul(none, x); },
      [&] { mul(x, none); },
      [&] { pow(none, 2); },
      [&] { add_relu(x, none); },
      [&] { relu(none); },
      [&] { gelu(none); },
      [&] { silu(none); },
      [&] { softplus(none); },
      [&] { nan_to_num(none); },
      [&] { bitwise_not(none); },
      [&] { bitwise_and(index, none); },
      [&] { remainder(none, 2); },
      [&] { floor_divide(x, none); },
      [&] { atan2(none, x); },
      [&] { lerp(none, x, 0.5); },
      [&] { lerp(x, x, none); },
      [&] { clamp(none, 0, 1); },
      [&] { isnan(none); },
      [&] { logical_not(none); },
      [&] { where(none, x, x); },
      [&] { where(x > 0, none, x); },
      [&] { where(x > 0, x, none); },
      [&] { relu_gradient(none, x); },
      [&] { relu_gradient(x, none); },
      [&] { fill_(none, 0); },
      [&] { zero_(none); },
      [&] { copy_(none, x); },
      [&] { copy_(x, none); },
      [&] { add_(none, x); },
      [&] { add_(x, none); },
      [&] { mul_(none, 2); },
      [&] { sum(none); },
      [&] { mean(none); },
      [&] { max(none); },
      [&] { var(none); },
      [&] { stddev(none); },
      [&] { prod(none); },
      [&] { logsumexp(none); },
      [&] { vector_norm(none); },
      [&] { any(none); },
      [&] { all(none); },
      [&] { argmax(none); },
      [&] { sum_to(none, {1}); },
      [&] { expand(none, {1}); },
      [&] { matmul(none, x); },
      [&] { matmul(x, none); },
      [&] { bmm(none, x); },
      [&] { bmm(x, none); },
      [&] { outer(none, x); },
      [&] { outer(x, none); },
      [&] { tensordot(none, x); },
      [&] { tensordot(x, none); },
      [&] {
        einsum("ij,jk", {none, x});
      },
      [&] {
        einsum("ij,jk", {x, none});
      },
      [&] { linear(none, x); },
      [&] { linear(x, none); },
      [&] { rotary_embedding(none); },
      [&] { scaled_dot_product_attention(none, image, image); },
      [&] { scaled_dot_product_attention(image, none, image); },
      [&] { scaled_dot_product_attention(image, image, none); },
      [&] { conv2d(none, filter); },
      [&] { conv2d(image, none); },
      [&] { conv_transpose2d(none, filter); },
      [&] { conv_transpose2d(image, none); },
      [&] { conv1d(none, filter); },
      [&] { conv_transpose1d(none, filter); },
      [&] { conv3d(none, filter); },
      [&] { conv_transpose3d(none, filter); },
      [&] { max_pool1d(none); },
      [&] { max_pool2d(none); },
      [&] { avg_pool2d(none); },
      [&] { max_pool3d(none); },
      [&] { avg_pool3d(none); },
      [&] {
        adaptive_avg_pool2d(none, {1, 1});
      },
      [&] { layer_norm(none); },
      [&] { group_norm(none, 1); },
      [&] { instance_norm(none); },
      [&] { rms_norm(none); },
      [&] { softmax(none, 0); },
      [&] { log_softmax(none, 0); },
      [&] { cross_entropy(none, index); },
      [&] { cross_entropy(x, none); },
      [&] { ctc_loss(none, index, index, index); },
      [&] {
        ctc_loss(zeros({2, 2, 3}), none, index, index);
      },
      [&] { mse_loss(none, x); },
      [&] { mse_loss(x, none); },
      [&] { l1_loss(x, none); },
      [&] { huber_loss(none, x); },
      [&] { smooth_l1_loss(none, x); },
      [&] { kl_div(x, none); },
      [&] { nll_loss(none, index); },
      [&] { nll_loss(x, none); },
      [&] { cosine_embedding_loss(none, x, index); },
      [&] { cosine_embedding_loss(x, x, none); },
      [&] { triplet_margin_loss(x, none, x); },
      [&] { linear_cross_entropy(none, x, index); },
      [&] { linear_cross_entropy(x, none, index); },
      [&] { linear_cross_entropy(x, x, none); },
      [&] { bce_with_logits(none, x); },
      [&] { bce_with_logits(x, none); },
      [&] { dropout(none); },
      [&] { dropout(none, 0.5, false); },
      [&] { embedding(none, index); },
      [&] { embedding(x, none); },
      [&] { gather(none, 0, indices); },
      [&] { gather(x, 0, none); },
      [&] { scatter_add(none, 0, indices, x); },
      [&] { scatter_add(x, 0, none, x); },
      [&] { scatter_add(x, 0, indices, none); },
      [&] { index_select(none, 0, index); },
      [&] { index_select(x, 0, none); },
      [&] {
        concatenate({none, x});
      },
      [&] {
        concatenate({x, none});
      },
      [&] {
        stack({none, x});
      },
      [&] {
        stack({x, none});
      },
      [&] { split(none, 1); },
      [&] { chunk(none, 2); },
      [&] { reshape(none, {1}); },
      [&] { flatten(none); },
      [&] { permute(none, {0}); },
      [&] { transpose(none, 0, 1); },
      [&] { slice(none, 0, 0, 1); },
      [&] { select(none, 0, 0); },
      [&] { squeeze(none); },
      [&] { unsqueeze(none, 0); },
      [&] { none[index]; },
      [&] { x[none]; },
      [&] {
        x[{Slice(), none}];
      },
      [&] { assign(none, {index}, x); },
      [&] { assign(none, {index}, 0); },
      [&] { assign(x, {none}, 0); },
      [&] { assign(x, {index}, none); },
      [&] { scatter(none, 0, indices, x); },
      [&] { scatter(x, 0, none, x); },
      [&] { scatter(x, 0, none, 1); },
      [&] { scatter(x, 0, indices, none); },
      [&] { index_add(none, 0, index, x); },
      [&] { index_add(x, 0, none, x); },
      [&] { index_add(x, 0, index, none); },
      [&] { index_fill(none, 0, index, 0); },
      [&] { index_fill(x, 0, none, 0); },
      [&] { index_fill(x, 0, index, none); },
      [&] { masked_fill(none, x > 0, 0); },
      [&] { masked_fill(x, none, 0); },
      [&] { masked_select(none, x > 0); },
      [&] { masked_select(x, none); },
      [&] { nonzero(none); },
      [&] { one_hot(none); },
      [&] { unique(none); },
      [&] { bernoulli(none); },
      [&] { multinomial(none, 1); },
      [&] { cumsum(none, 0); },
      [&] { cumprod(none, 0); },
      [&] { sort(none); },
      [&] { argsort(none); },
      [&] { topk(none, 1); },
      [&] { max_with_indices(none, 0); },
      [&] { min_with_indices(none, 0); },
      [&] { searchsorted(none, x); },
      [&] { searchsorted(x, none); },
      [&] { flip(none, 0); },
      [&] { roll(none, 1); },
      [&] { roll(none, 1, 0); },
      [&] {
        pad(none, {1, 1});
      },
      [&] {
        pad(none, {1, 1}, PadMode::reflect);
      },
      [&] { repeat(none, 2); },
      [&] { tile(none, 2); },
      [&] { repeat_interleave(none, 2); },
      [&] { repeat_interleave(x, none, 0); },
      [&] {
        meshgrid({index, none});
      },
      [&] { diagonal(none); },
      [&] { tril(none); },
      [&] { triu(none); },
      [&] { unfold(none, 0, 1, 1); },
      [&] { contiguous(none); },
      [&] { clone(none); },
      [&] { to(none, DType::float64); },
      [&] { to(none, Device("cpu:1")); },
      [&] { to_layout(none, Layout::channels_last); },
      [&] { none.detach(); },
      [&] { none.set_requires_grad(); },
      [&] { none.grad(); },
      [&] { none.set_grad(x); },
      [&] { register_hook(none, [](const Tensor& g) { return g; }); },
      [&] { register_completed_hook(none, [](const Tensor&) {}); },
  };
  int number = 0;
  for (const auto& call : calls) {
    SCOPED_TRACE(number++);
    expect_throws<ValueError>(call, "must be defined");
  }
}

TEST(UndefinedTensorTest, HasNoBackward) {
  const Tensor none, x = ones({1}).set_requires_grad();
  expect_throws<AutogradError>([&] { none.backward(); }, "got an undefined tensor");
  expect_throws<AutogradError>([&] { grad(none, x); }, "got an undefined tensor");
  expect_throws<AutogradError>([&] { grad(x * 2, none); }, "got an undefined tensor");
}

}  // namespace
}  // namespace ringrad
