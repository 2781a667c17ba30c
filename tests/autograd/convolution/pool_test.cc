#include "ringrad/autograd/convolution/pool.h"

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
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

// -- Volumes -------------------------------------------------------------------------------------

const Pool3dOptions kVolumes[] = {
    {},
    {.kernel = {1, 3, 2}, .stride = {2, 1, 2}},
    {.kernel = {3, 2, 3}, .stride = {1, 2, 2}, .padding = {1, 1, 0}},
    {.kernel = {2, 3, 3}, .stride = {2, 2, 1}, .padding = {1, 1, 1}, .count_include_pad = false},
};

// visit(output, inputs) for every window of a contiguous volume, as places in memory.
template <class Visit>
void for_each_window(const Shape& x, Pool3dOptions o, Visit visit) {
  std::int64_t out[3], output = 0;
  for (unsigned i = 0; i < 3; ++i) {
    if (o.stride[i] == 0) o.stride[i] = o.kernel[i];
    out[i] = (x[static_cast<int>(i) + 2] + 2 * o.padding[i] - o.kernel[i]) / o.stride[i] + 1;
  }
  for (std::int64_t image = 0; image < x[0] * x[1]; ++image)
    for (std::int64_t n = 0; n < out[0] * out[1] * out[2]; ++n) {
      const std::int64_t at[] = {n / (out[1] * out[2]), n / out[2] % out[1], n % out[2]};
      std::vector<std::int64_t> inputs;
      for (std::int64_t k = 0; k < o.kernel[0] * o.kernel[1] * o.kernel[2]; ++k) {
        const std::int64_t d = at[0] * o.stride[0] - o.padding[0] + k / (o.kernel[1] * o.kernel[2]);
        const std::int64_t h = at[1] * o.stride[1] - o.padding[1] + k / o.kernel[2] % o.kernel[1];
        const std::int64_t w = at[2] * o.stride[2] - o.padding[2] + k % o.kernel[2];
        if (d >= 0 && d < x[2] && h >= 0 && h < x[3] && w >= 0 && w < x[4])
          inputs.push_back(((image * x[2] + d) * x[3] + h) * x[4] + w);
      }
      visit(static_cast<std::size_t>(output++), inputs);
    }
}

// Few different values, so that windows have ties, which the first place must win.
TEST(AutogradPoolTest, VolumesArePooledByTheirDefinition) {
  Random random(5);
  const Shape shape{2, 3, 4, 5, 6};
  for (const Pool3dOptions& options : kVolumes)
    for (const bool channels_last : {false, true}) {
      Tensor x = floor(random.tensor(shape) * 2.);
      const std::vector<double> values = x.to_vector<double>();
      if (channels_last)
        x = permute(contiguous(permute(x, {0, 2, 3, 4, 1})), {0, 4, 1, 2, 3}).detach();
      x.set_requires_grad();
      const double window =
          static_cast<double>(options.kernel[0] * options.kernel[1] * options.kernel[2]);
      std::vector<double> largest, means, wins(values.size()), shares(values.size());
      for_each_window(shape, options, [&](std::size_t, const auto& inputs) {
        const double divisor =
            options.count_include_pad ? window : static_cast<double>(inputs.size());
        auto winner = static_cast<std::size_t>(inputs[0]);
        double total = 0;
        for (const std::int64_t input : inputs) {
          const auto i = static_cast<std::size_t>(input);
          if (values[i] > values[winner]) winner = i;
          total += values[i];
          shares[i] += 1 / divisor;
        }
        largest.push_back(values[winner]);
        means.push_back(total / divisor);
        ++wins[winner];
      });
      const Tensor y = max_pool3d(x, options);
      expect_close(y, largest);
      EXPECT_EQ(y.strides()[1] == 1, channels_last);
      expect_close(grad(sum(y), x), wins);
      const Tensor mean = avg_pool3d(x, options);
      expect_close(mean, means, 16);
      expect_close(grad(sum(mean), x), shares, 16);
    }
}

TEST(AutogradPoolTest, GradientsOfVolumesAgreeWithDifferences) {
  Random random(6);
  const Tensor x = distinct_leaf(random, {2, 2, 3, 4, 3});
  for (const Pool3dOptions& options : kVolumes) {
    const auto f = [&](const std::vector<Tensor>& in) {
      return square(max_pool3d(in[0], options)) + avg_pool3d(in[0], options);
    };
    EXPECT_EQ(gradient_check(f, {x}, {.step = 1e-4}), "");
    EXPECT_EQ(gradient_gradient_check(f, {x}, {.step = 1e-4}), "");
  }
}

TEST(AutogradPoolTest, MeansOfSixteenBitVolumesAreRoundedOnce) {
  Random random(7);
  const Tensor x = random.tensor({1, 2, 4, 4, 4}, DType::bfloat16);
  testing::expect_same_bits(avg_pool3d(x), to(avg_pool3d(to(x, DType::float32)), DType::bfloat16));
}

TEST(AutogradPoolTest, WindowsTouchUnlessAStrideIsGiven) {
  Random random(8);
  const Tensor x = random.tensor({1, 2, 7, 9}), volume = random.tensor({1, 2, 7, 6, 9});
  testing::expect_same_bits(avg_pool2d(x, {.kernel = {3, 4}}),
                            avg_pool2d(x, {.kernel = {3, 4}, .stride = {3, 4}}));
  testing::expect_same_bits(max_pool1d(flatten(x, 1, 2), {.kernel = 4}),
                            max_pool1d(flatten(x, 1, 2), {.kernel = 4, .stride = 4}));
  testing::expect_same_bits(max_pool3d(volume, {.kernel = {3, 2, 4}}),
                            max_pool3d(volume, {.kernel = {3, 2, 4}, .stride = {3, 2, 4}}));
}

TEST(AutogradPoolTest, VolumesThrowAtTheCallersLine) {
  const Tensor x = zeros({1, 1, 2, 4, 4});
  EXPECT_EQ(max_pool3d(zeros({0, 2, 2, 2, 2})).shape(), (Shape{0, 2, 1, 1, 1}));
  expect_throws<ShapeError>(
      [] {
        max_pool3d(zeros({1, 4, 4, 4}));
      },
      "max_pool3d: input must be (B, C, D, H, W); got (1, 4, 4, 4)");
  expect_throws<ShapeError>(
      [&] {
        avg_pool3d(x, {.kernel = {3, 1, 1}});
      },
      "avg_pool3d: the window must fit into the padded input; got an extent "
      "of 2 for a window of 3");
  expect_throws<ShapeError>([&] { avg_pool3d(zeros({1, 1, 0, 4, 4})); }, "must have pixels");
  expect_throws<ValueError>([&] { max_pool3d(x, {.padding = {2, 0, 0}}); }, "max_pool3d: ");
}

TEST(AutogradPoolTest, ThrowsAtTheCallersLine) {
  const Tensor x = zeros({1, 1, 4, 4});
  expect_throws<ShapeError>([] { max_pool2d(zeros({4, 4})); }, "max_pool2d: ");
  expect_throws<ShapeError>([&] { avg_pool2d(x, {.kernel = {5, 1}}); }, "avg_pool2d: ");
  expect_throws<ValueError>([&] { max_pool2d(x, {.stride = {-1, 1}}); }, "max_pool2d: ");
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
