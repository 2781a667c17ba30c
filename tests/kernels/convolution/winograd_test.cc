#include "ringrad/kernels/convolution/winograd.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

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
    const Tensor weight = empty({p.K, p.C, 3, 3});
    winograd::backward_weight(p, x.data<float>(), grad.data<float>(), weight.data<float>(),
                              Where::current());
    expect_accurate(
        weight, reference_of(p).backward_weight(grad.to_vector<double>(), x.to_vector<double>()));
  });
}

// Uneven images: pixels of very different size, infinities and NaNs. Each place, a pixel of an
// image or a tap of a filter, must be as accurate as its own terms allow, whatever its neighbours
// are. expected is the definition in double, and `terms` the sum of the terms' magnitudes. Both are
// (.., channels, places) with `places` places.
void expect_accurate_places(const Tensor& actual, const std::vector<double>& expected,
                            const std::vector<double>& terms, std::int64_t places,
                            std::int64_t channels, const std::string& what) {
  const auto values = actual.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  std::map<std::int64_t, double> largest;  // of the terms at a place
  const auto place_of = [&](std::size_t i) {
    const auto index = static_cast<std::int64_t>(i);
    return index / (places * channels) * places + index % places;
  };
  for (std::size_t i = 0; i < values.size(); ++i)
    if (double& scale = largest[place_of(i)]; terms[i] > scale) scale = terms[i];
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool is_right = std::isnan(expected[i]) ? std::isnan(values[i])
                          : std::isinf(expected[i])
                              ? values[i] == expected[i]
                              : std::abs(values[i] - expected[i]) <= 1e-5 * largest[place_of(i)];
    ASSERT_TRUE(is_right) << what << ": value " << i << " is " << values[i] << ", not "
                          << expected[i] << "; terms up to " << largest[place_of(i)];
  }
}

std::vector<double> magnitudes(std::vector<double> values) {
  for (double& value : values) value = std::abs(value);
  return values;
}

// Changes an image (B, C, H, W): one pixel, in one channel or all, at a corner or inside; a row;
// the right half; all pixels but one.
struct Change {
  const char* name;
  bool (*is_changed)(std::int64_t b, std::int64_t c, std::int64_t h, std::int64_t w);
};
constexpr Change kChanges[] = {
    {"a pixel", [](auto b, auto, auto h, auto w) { return b == 0 && h == 2 && w == 1; }},
    {"a pixel of one channel",
     [](auto b, auto c, auto h, auto w) { return b == 0 && c == 3 && h == 1 && w == 2; }},
    {"a corner", [](auto b, auto c, auto h, auto w) { return b == 0 && c == 0 && h + w == 0; }},
    {"a row", [](auto, auto, auto h, auto) { return h == 2; }},
    {"columns", [](auto, auto, auto, auto w) { return w > 1; }},
    {"all but a pixel", [](auto, auto, auto h, auto w) { return h != 1 || w != 1; }},
};

// Exact zeros; what Winograd is left to do; far above; too large and too small for the transforms;
// beyond all numbers.
const float kFactors[] = {0, 20, 1e4f, 1e20f, 1e-30f, INFINITY, NAN};

template <class Body>
void for_each_uneven_image(Body body) {
  const Team team(2);
  for (const Change& change : kChanges)
    for (const float factor : kFactors)
      for (const Problem& p : std::span(kProblems).first(4)) {
        Random random(static_cast<std::uint64_t>(p.C + p.H));
        body(p, random, concat(change.name, " times ", factor, ", ", p.H, " x ", p.W),
             [&](const Tensor& x) {
               for (std::int64_t b = 0; b < x.shape()[0]; ++b)
                 for (std::int64_t c = 0; c < x.shape()[1]; ++c)
                   for (std::int64_t h = 0; h < x.shape()[2]; ++h)
                     for (std::int64_t w = 0; w < x.shape()[3]; ++w)
                       if (change.is_changed(b, c, h, w))
                         x.data<float>()[b * x.strides()[0] + c * x.strides()[1] +
                                         h * x.strides()[2] + w * x.strides()[3]] *= factor;
               return x;
             });
      }
}

TEST(WinogradTest, OutputsKeepTheAccuracyOfTheirOwnPixels) {
  for_each_uneven_image([](const Problem& p, Random& random, const std::string& what, auto change) {
    const Tensor x = change(image(random, p.B, p.C, p.H, p.W));
    const Tensor weight = random.tensor({p.K, p.C, 3, 3}), bias = random.tensor({p.K});
    const Tensor y = empty({p.B, p.K, p.P, p.Q}, {.layout = Layout::channels_last});
    winograd::forward(p, x.data<float>(), weight.data<float>(), bias.data<float>(), y.data<float>(),
                      Where::current());
    const auto forward = [&](auto&& of) {
      return reference_of(p).forward(of(x.to_vector<double>()), of(weight.to_vector<double>()),
                                     of(bias.to_vector<double>()));
    };
    expect_accurate_places(y, forward(std::identity()), forward(magnitudes), p.P * p.Q, p.K, what);
  });
}

TEST(WinogradTest, InputGradientsKeepTheAccuracyOfTheirOwnPixels) {
  for_each_uneven_image([](const Problem& p, Random& random, const std::string& what, auto change) {
    const Tensor grad = change(image(random, p.B, p.K, p.P, p.Q));
    const Tensor weight = random.tensor({p.K, p.C, 3, 3});
    const Tensor x = empty({p.B, p.C, p.H, p.W}, {.layout = Layout::channels_last});
    winograd::backward_input(p, grad.data<float>(), weight.data<float>(), x.data<float>(),
                             Where::current());
    const auto backward = [&](auto&& of) {
      return reference_of(p).backward_input(of(grad.to_vector<double>()),
                                            of(weight.to_vector<double>()));
    };
    expect_accurate_places(x, backward(std::identity()), backward(magnitudes), p.H * p.W, p.C,
                           what);
  });
}

TEST(WinogradTest, FilterGradientsKeepTheAccuracyOfTheirOwnProducts) {
  for (const bool in_x : {true, false})
    for_each_uneven_image([&](const Problem& p, Random& random, const std::string& what,
                              auto change) {
      const Tensor grad = image(random, p.B, p.K, p.P, p.Q), x = image(random, p.B, p.C, p.H, p.W);
      change(in_x ? x : grad);
      const Tensor weight = empty({p.K, p.C, 3, 3});
      winograd::backward_weight(p, x.data<float>(), grad.data<float>(), weight.data<float>(),
                                Where::current());
      const auto backward = [&](auto&& of) {
        return reference_of(p).backward_weight(of(grad.to_vector<double>()),
                                               of(x.to_vector<double>()));
      };
      expect_accurate_places(weight, backward(std::identity()), backward(magnitudes), 9, p.K * p.C,
                             what);
    });
}

// An infinite weight meets no padding, and small ones lose no digits.
TEST(WinogradTest, UnusualFiltersAreApplied) {
  for (const float factor : {INFINITY, NAN, 1e30f, 1e-35f, 0.f})
    for_each_problem([&](const Problem& p, Random& random) {
      const Tensor x = image(random, p.B, p.C, p.H, p.W), weight = random.tensor({p.K, p.C, 3, 3});
      for (std::int64_t i = 0; i < weight.numel(); ++i)
        if (!std::isfinite(factor) ? i == 1 : true) weight.data<float>()[i] *= factor;
      const Tensor y = empty({p.B, p.K, p.P, p.Q}, {.layout = Layout::channels_last});
      winograd::forward(p, x.data<float>(), weight.data<float>(), nullptr, y.data<float>(),
                        Where::current());
      const auto forward = [&](auto&& of) {
        return reference_of(p).forward(of(x.to_vector<double>()), of(weight.to_vector<double>()),
                                       {});
      };
      expect_accurate_places(y, forward(std::identity()), forward(magnitudes), p.P * p.Q, p.K,
                             concat(factor));
    });
}

TEST(WinogradTest, SupportsSixteensOfChannelsOnly) {
  EXPECT_FALSE(winograd::supports({1, 3, 8, 8, 16, 8, 8, 1, 1}));
  EXPECT_FALSE(winograd::supports({1, 16, 8, 8, 24, 8, 8, 1, 1}));
  EXPECT_FALSE(winograd::supports({1, 16, 8, 8, 16, 12, 12, 3, 3}));
}

}  // namespace
}  // namespace ringrad::kernels
