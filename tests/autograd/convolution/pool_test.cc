#include "ringrad/autograd/convolution/pool.h"

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

struct Row {
  const char* name;
  Pool2dOptions options;
};

const Row kRows[] = {
    {"side by side", {}},
    {"overlapping", {.kernel = {3, 2}, .stride = {1, 1}}},
    {"padded", {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
    {"padded, mean of what is there",
     {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}, .count_include_pad = false}},
    {"stride larger than kernel", {.kernel = {1, 2}, .stride = {2, 3}}},
};

// Every value occurs once and neighbours differ by more than the step of the differences, so that
// no maximum changes its place.
Tensor distinct_leaf(Random& random, const Shape& shape) {
  const Tensor order = randperm(shape.numel(), random.generator());
  return contiguous(reshape(to(order, DType::float64), shape)).detach().set_requires_grad();
}

TEST(AutogradPoolTest, MaxPoolGradientsAgreeWithDifferences) {
  Random random(1);
  for (const Row& row : kRows) {
    const DifferentiableFunction f = [&](const std::vector<Tensor>& in) {
      return square(max_pool2d(in[0], row.options));
    };
    const Tensor x = distinct_leaf(random, {2, 2, 5, 4});
    EXPECT_EQ(gradient_check(f, {x}, {.step = 1e-4}), "") << row.name;
    EXPECT_EQ(gradient_gradient_check(f, {x}, {.step = 1e-4}), "") << row.name;
  }
}

TEST(AutogradPoolTest, MeanGradientsAgreeWithDifferences) {
  Random random(2);
  for (const Row& row : kRows) {
    const DifferentiableFunction f = [&](const std::vector<Tensor>& in) {
      return square(avg_pool2d(in[0], row.options));
    };
    const Tensor x = random.tensor({2, 2, 5, 4}, DType::float64).set_requires_grad();
    EXPECT_EQ(gradient_check(f, {x}), "") << row.name;
    EXPECT_EQ(gradient_gradient_check(f, {x}), "") << row.name;
  }
}

TEST(AutogradPoolTest, AdaptiveMeanGradientsAgreeWithDifferences) {
  Random random(3);
  using Size = std::array<std::int64_t, 2>;
  for (const Size& size : {Size{1, 1}, Size{2, 3}, Size{5, 4}, Size{7, 6}}) {
    const DifferentiableFunction f = [&](const std::vector<Tensor>& in) {
      return square(adaptive_avg_pool2d(in[0], size));
    };
    const Tensor x = random.tensor({2, 2, 5, 4}, DType::float64).set_requires_grad();
    EXPECT_EQ(gradient_check(f, {x}), "") << size[0] << " x " << size[1];
    EXPECT_EQ(gradient_gradient_check(f, {x}), "") << size[0] << " x " << size[1];
  }
}

TEST(AutogradPoolTest, TheFirstOfEqualMaximaTakesTheWholeGradient) {
  const Tensor x = ones({1, 1, 2, 2}).set_requires_grad();
  sum(max_pool2d(x)).backward();
  expect_close(x.grad(), {1, 0, 0, 0});
}

TEST(AutogradPoolTest, GradientsOfChannelsLastImagesAreTheSame) {
  Random random(4);
  const Tensor values = random.tensor({2, 3, 6, 6});
  const Tensor x = values.detach().set_requires_grad();
  const Tensor y = to_layout(values, Layout::channels_last).detach().set_requires_grad();
  const Tensor weights = random.tensor({2, 3, 3, 3});
  max_pool2d(x).backward(weights);
  max_pool2d(y).backward(weights);
  testing::expect_same_bits(y.grad(), x.grad());
}

TEST(AutogradPoolTest, EmptyBatchesPass) {
  const Tensor x = zeros({0, 2, 4, 4}).set_requires_grad();
  sum(max_pool2d(x) + avg_pool2d(x) + adaptive_avg_pool2d(x, {2, 2})).backward();
  EXPECT_EQ(x.grad().shape(), x.shape());
}

TEST(AutogradPoolTest, SequencesAreImagesOfOneRow) {
  Random random(9);
  const Tensor x = random.tensor({2, 3, 7}, DType::float64).set_requires_grad();
  const Pool1dOptions options{.kernel = 3, .stride = 2, .padding = 1};
  const Pool2dOptions row{.kernel = {1, 3}, .stride = {1, 2}, .padding = {0, 1}};
  expect_close(max_pool1d(x, options), squeeze(max_pool2d(unsqueeze(x, 2), row), {2}));
  expect_close(avg_pool1d(x, options), squeeze(avg_pool2d(unsqueeze(x, 2), row), {2}));
  const auto largest = [&](const std::vector<Tensor>& in) { return max_pool1d(in[0], options); };
  const auto means = [&](const std::vector<Tensor>& in) { return avg_pool1d(in[0], options); };
  EXPECT_EQ(gradient_check(largest, {x}), "");
  EXPECT_EQ(gradient_check(means, {x}), "");
  expect_throws<ShapeError>([&] { max_pool1d(unsqueeze(x, 2)); },
                            "max_pool1d: input must be (B, C, L); got (2, 3, 1, 7)");
}

TEST(AutogradPoolTest, ThrowsAtTheCallersLine) {
  const Tensor x = zeros({1, 1, 4, 4});
  expect_throws<ShapeError>([] { max_pool2d(zeros({4, 4})); }, "max_pool2d: ");
  expect_throws<ShapeError>([&] { avg_pool2d(x, {.kernel = {5, 1}}); }, "avg_pool2d: ");
  expect_throws<ValueError>([&] { max_pool2d(x, {.stride = {0, 1}}); }, "max_pool2d: ");
  expect_throws<ValueError>([&] { max_pool2d(x, {.padding = {2, 0}}); }, "max_pool2d: ");
  expect_throws<ValueError>([&] { adaptive_avg_pool2d(x, {0, 1}); }, "adaptive_avg_pool2d: ");
  expect_throws<DTypeError>(
      [] {
        max_pool2d(zeros({1, 1, 2, 2}, {.dtype = DType::int32}));
      },
      "max_pool2d");
}

}  // namespace
}  // namespace ringrad
