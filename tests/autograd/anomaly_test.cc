#include "ringrad/autograd/anomaly.h"

#include <gtest/gtest.h>

#include <limits>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

TEST(AnomalyTest, NamesTheOperationWhoseResultIsNaN) {
  const DetectAnomaly guard;
  const Tensor x = tensor({1., -1.}).set_requires_grad();
  testing::expect_throws<AutogradError>([&] { sum(log(x)); }, "log: while anomalies are detected");
}

// sqrt has an infinite derivative at 0, which the product multiplies by 0.
TEST(AnomalyTest, NamesTheOperationWhoseGradientIsNaN) {
  const Tensor x = tensor({4., 0.}).set_requires_grad();
  const Tensor y = sum(sqrt(x) * tensor({1., 0.}));
  y.backward(/*gradient=*/{}, {.retain_graph = true});  // NaN, without a word
  const DetectAnomaly guard;
  testing::expect_throws<AutogradError>([&] { y.backward(); },
                                        "backward of sqrt (anomaly_test.cc:");
}

TEST(AnomalyTest, AcceptsInfinitiesAndTensorsWithoutGradients) {
  const DetectAnomaly guard;
  const Tensor x = tensor({0., 1.}).set_requires_grad();
  EXPECT_NO_THROW(sum(log(x)).backward());  // -infinity
  EXPECT_NO_THROW(log(tensor({-1.})));
}

TEST(AnomalyTest, IsOffOutsideOfTheScope) {
  const Tensor x = tensor({-1.}).set_requires_grad();
  {
    const DetectAnomaly guard;
    const DetectAnomaly off(false);
    EXPECT_NO_THROW(log(x));
  }
  EXPECT_NO_THROW(log(x));
}

}  // namespace
}  // namespace ringrad
