// Batch norm in one call against its separate passes. On a GPU with the vendor's kernels these are
// two programs. With our own kernels the call consists of the passes, and the test shows that it
// combines them correctly.

#include "ringrad/kernels/norm/batch_norm_training.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/library/backend.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::epsilon;
using ringrad::testing::expect_close;
using ringrad::testing::expect_throws;
using ringrad::testing::Random;

constexpr double kEps = 1e-5;
const Shape kShape{4, 32, 7, 6};

// Biases that decide the sign of y: rounding does not move a value across zero.
Tensor decisive_bias() {
  const Tensor bias = full({32}, 20.0);
  for (std::int64_t c = 0; c < 32; c += 3) copy_(view::select(bias, 0, c), full({}, -20.0));
  return bias;
}

TEST(BatchNormTrainingTest, IsThePasses) {
  std::uint64_t seed = 0;
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16})
    for (const bool relu : {false, true})
      for (const bool has_residual : {false, true})
        for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
          Random random(seed++);
          const auto image = [&] { return to_layout(random.tensor(kShape, dtype), layout); };
          const Tensor x = image(), grad = image(), residual = has_residual ? image() : Tensor();
          const Tensor weight = random.tensor({32}, 0.5, 2), bias = decisive_bias();

          const Moments moments = batch_norm_moments(x);
          const Tensor rstd = batch_norm_rstd(moments.var, kEps);
          const BatchNormTraining all = batch_norm_train(x, weight, bias, kEps, relu, residual);
          // The vendor's library must have handled the cases that it is meant to handle.
          const bool vendor = kernel_backend("batch_norm") == KernelBackend::vendor &&
                              x.device().is_cuda() && layout == Layout::channels_last &&
                              dtype != DType::float64;
          EXPECT_EQ(all.mask.defined(), vendor && relu);
          expect_close(all.y, batch_norm_apply(x, moments.mean, rstd, weight, bias, relu, residual),
                       64);
          expect_close(all.moments.mean, moments.mean);
          expect_close(all.moments.var, moments.var);
          expect_close(all.rstd, rstd);

          const BatchNormSaved saved{
              x, weight, bias, all.moments.mean, all.rstd, relu, relu ? residual : Tensor()};
          const double rows = static_cast<double>(x.numel() / 32);
          const BatchNormSums sums = batch_norm_backward_sums(grad, saved);
          const BatchNormGradients gradients = batch_norm_backward_apply(grad, saved, sums, rows);
          const BatchNormBackward back = batch_norm_backward(grad, saved, all.mask, rows, true);
          expect_close(back.sums.grad, sums.grad, 256);
          expect_close(back.sums.grad_xhat, sums.grad_xhat, 256);
          expect_close(back.gradients.grad_input, gradients.grad_input, 256);
          ASSERT_EQ(back.gradients.grad_residual.defined(), saved.residual.defined());
          if (saved.residual.defined())
            expect_close(back.gradients.grad_residual, gradients.grad_residual, 0);
        }
}

TEST(BatchNormTrainingTest, VarianceComesBackFromItsRoot) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Tensor var = cast(tensor({0, 1e-3F, 1, 1e6F}), dtype);
    const auto back = batch_norm_var(batch_norm_rstd(var, kEps), kEps).to_vector<double>();
    const auto expected = var.to_vector<double>();
    for (std::size_t c = 0; c < back.size(); ++c) {
      EXPECT_GE(back[c], 0);
      EXPECT_NEAR(back[c], expected[c], 4 * epsilon(dtype) * (expected[c] + kEps));
    }
  }
}

TEST(BatchNormTrainingTest, VarianceOfANanIsNan) {
  EXPECT_TRUE(std::isnan(batch_norm_var(full({1}, std::nanf("")), kEps).item<double>()));
}

TEST(BatchNormTrainingTest, RefusesWhatThePassesRefuse) {
  const Tensor x = to_layout(ones({2, 3, 4, 4}), Layout::channels_last);
  const Tensor weight = ones({3}), bias = zeros({3});
  expect_throws<ShapeError>([&] { batch_norm_train(x, ones({4}), bias, kEps, false); },
                            "weight must have one value per channel; got (4,)");
  expect_throws<ShapeError>(
      [&] {
        batch_norm_train(x, weight, bias, kEps, true, ones({2, 3, 4, 5}));
      },
      "the residual must have the shape of x (2, 3, 4, 4)");
  expect_throws<ShapeError>([&] { batch_norm_train(ones({3}), weight, bias, kEps, false); },
                            "x must be (B, C, ...)");
}

}  // namespace
}  // namespace ringrad::kernels
