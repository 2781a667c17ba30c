#include "ringrad/kernels/convolution/winograd.h"

#include <algorithm>
#include <cmath>

#include "ringrad/core/tensor.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/reference/convolution.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::Random;
using ringrad::testing::Team;
using winograd::Problem;

// These tests run on every machine, even where convolution.cc would choose another algorithm.

// Sizes that are multiples of the tile and sizes that are not; one block of tiles and several.
const Problem kProblems[] = {
    {1, 16, 4, 4, 16, 4, 4, 1, 1}, {2, 16, 7, 9, 32, 7, 9, 1, 1},     {3, 48, 8, 5, 16, 6, 3, 0, 0},
    {1, 32, 6, 6, 64, 8, 6, 2, 1}, {5, 16, 14, 14, 32, 14, 14, 1, 1},
};

reference::Convolution reference_of(const Problem& p) {
  return {.B = p.B,
          .C = p.C,
          .H = p.H,
          .W = p.W,
          .K = p.K,
          .R = 3,
          .S = 3,
          .padding_h = p.padding_h,
          .padding_w = p.padding_w};
}

Tensor image(Random& random, std::int64_t B, std::int64_t C, std::int64_t H, std::int64_t W) {
  const Tensor x = empty({B, C, H, W}, {.layout = Layout::channels_last});
  for (std::int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>(random.real(-1, 1));
  return x;
}

// Bounds are twice the worst of the table in winograd.h. A wrong constant or place shows at 1e-2.
void expect_accurate(const Tensor& actual, const std::vector<double>& expected) {
  const auto values = actual.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  double worst = 0, largest = 0, squared_error = 0, squared = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = std::abs(values[i] - expected[i]);
    worst = std::max(worst, error);
    largest = std::max(largest, std::abs(expected[i]));
    squared_error += error * error;
    squared += expected[i] * expected[i];
  }
  EXPECT_LT(std::sqrt(squared_error / squared), 5.6e-6);
  EXPECT_LT(worst, 1.7e-5 * largest);
}

template <class Body>
void for_each_problem(Body body) {
  for (const Problem& p : kProblems)
    for (const int threads : {1, 2}) {
      ASSERT_TRUE(winograd::supports(p));
      const Team team(threads);
      Random random(static_cast<std::uint64_t>(p.C + p.H));
      body(p, random);
    }
}

TEST(WinogradTest, ForwardIsConvolution) {
  for_each_problem([](const Problem& p, Random& random) {
    const Tensor x = image(random, p.B, p.C, p.H, p.W), weight = random.tensor({p.K, p.C, 3, 3});
    const Tensor bias = random.tensor({p.K});
    const Tensor y = empty({p.B, p.K, p.P, p.Q}, {.layout = Layout::channels_last});
    winograd::forward(p, x.data<float>(), weight.data<float>(), bias.data<float>(), y.data<float>(),
                      Where::current());
    expect_accurate(y, reference_of(p).forward(x.to_vector<double>(), weight.to_vector<double>(),
                                               bias.to_vector<double>()));
    winograd::forward(p, x.data<float>(), weight.data<float>(), nullptr, y.data<float>(),
                      Where::current());
    expect_accurate(y,
                    reference_of(p).forward(x.to_vector<double>(), weight.to_vector<double>(), {}));
  });
}

TEST(WinogradTest, BackwardInputIsTheAdjoint) {
  for_each_problem([](const Problem& p, Random& random) {
    const Tensor grad = image(random, p.B, p.K, p.P, p.Q), weight = random.tensor({p.K, p.C, 3, 3});
    const Tensor x = empty({p.B, p.C, p.H, p.W}, {.layout = Layout::channels_last});
    winograd::backward_input(p, grad.data<float>(), weight.data<float>(), x.data<float>(),
                             Where::current());
    expect_accurate(
        x, reference_of(p).backward_input(grad.to_vector<double>(), weight.to_vector<double>()));
  });
}

TEST(WinogradTest, BackwardWeightIsTheAdjoint) {
  for_each_problem([](const Problem& p, Random& random) {
    const Tensor grad = image(random, p.B, p.K, p.P, p.Q), x = image(random, p.B, p.C, p.H, p.W);
    const Tensor weight = empty({p.K, p.C, 3, 3}), bias = empty({p.K});
    winograd::backward_weight(p, x.data<float>(), grad.data<float>(), weight.data<float>(),
                              bias.data<float>(), Where::current());
    const auto reference = reference_of(p);
    expect_accurate(weight,
                    reference.backward_weight(grad.to_vector<double>(), x.to_vector<double>()));
    expect_accurate(bias, reference.backward_bias(grad.to_vector<double>()));
  });
}

TEST(WinogradTest, SupportsSixteensOfChannelsOnly) {
  EXPECT_FALSE(winograd::supports({1, 3, 8, 8, 16, 8, 8, 1, 1}));
  EXPECT_FALSE(winograd::supports({1, 16, 8, 8, 24, 8, 8, 1, 1}));
  EXPECT_FALSE(winograd::supports({1, 16, 8, 8, 16, 12, 12, 3, 3}));
}

}  // namespace
}  // namespace ringrad::kernels
