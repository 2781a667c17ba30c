#include "ringrad/autograd/autocast.h"

#include <thread>

#include "ringrad/autograd/activation_checkpoint.h"
#include "ringrad/autograd/convolution/convolution.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/loss/pointwise_loss.h"
#include "ringrad/autograd/loss/softmax.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/linalg.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;

constexpr DType kNarrow[] = {DType::bfloat16, DType::float16};

// LAPACK has no 16-bit part.
TEST(AutocastTest, LinalgComputesInItsOwnDType) {
  Random random(2);
  for (const Shape& shape : {Shape{5, 3}, Shape{3, 5}}) {
    const Tensor a = to(random.tensor(shape), Device()),
                 b = to(random.tensor({shape[0], 2}), Device());
    const Tensor x = linalg::lstsq(a, b), r = linalg::qr(a).r;
    const Autocast mixed(DType::bfloat16);
    expect_same_bits(linalg::lstsq(a, b), x);
    expect_same_bits(linalg::qr(a).r, r);
  }
}

TEST(AutocastTest, ProductsAreNarrowAndLossesWide) {
  Random random(1);
  const Tensor x = random.tensor({2, 3, 5, 5}), filter = random.tensor({4, 3, 3, 3});
  const Tensor a = random.tensor({4, 6}), b = random.tensor({6, 5}), w = random.tensor({5, 6});
  const Tensor targets = to(tensor({0., 1., 2., 3.}), DType::int64);
  for (const DType dtype : kNarrow) {
    const Autocast mixed(dtype);
    EXPECT_EQ(matmul(a, b).dtype(), dtype);
    EXPECT_EQ(linear(a, w, {}).dtype(), dtype);
    EXPECT_EQ(conv2d(x, filter, {}).dtype(), dtype);
    const Tensor scores = matmul(a, b);
    EXPECT_EQ(softmax(scores, 1).dtype(), DType::float32);
    EXPECT_EQ(log_softmax(scores, 1).dtype(), DType::float32);
    EXPECT_EQ(cross_entropy(scores, targets).dtype(), DType::float32);
    EXPECT_EQ(mse_loss(scores, matmul(a, b)).dtype(), DType::float32);
    EXPECT_EQ((scores + scores).dtype(), dtype);
    EXPECT_EQ(sum(scores).dtype(), dtype);
  }
  EXPECT_EQ(matmul(a, b).dtype(), DType::float32);
}

TEST(AutocastTest, IsTheSameAsConvertingByHand) {
  Random random(2);
  const Tensor a = random.tensor({7, 9}), b = random.tensor({9, 3});
  const Tensor by_hand = matmul(to(a, DType::bfloat16), to(b, DType::bfloat16));
  const Autocast mixed(DType::bfloat16);
  expect_same_bits(matmul(a, b), by_hand);
}

TEST(AutocastTest, ParametersGetGradientsOfTheirOwnDtype) {
  Random random(3);
  const Tensor x = random.tensor({8, 6}), weight = random.tensor({5, 6}), bias = random.tensor({5});
  const auto gradients = [&](DType dtype) {
    const Tensor w = weight.detach(), b = bias.detach();
    const Tensor own_w = to_layout(w + 0, Layout::contiguous), own_b = b + 0;
    own_w.set_requires_grad();
    own_b.set_requires_grad();
    Tensor loss;
    {
      const Autocast mixed(dtype);
      loss = mean(square(linear(x, own_w, own_b, true)));
    }
    loss.backward();
    return std::pair(own_w.grad(), own_b.grad());
  };
  const auto [wide_w, wide_b] = gradients(DType::float32);
  const auto [w, b] = gradients(DType::bfloat16);
  EXPECT_EQ(w.dtype(), DType::float32);
  EXPECT_EQ(b.dtype(), DType::float32);
  expect_close(to(w, DType::bfloat16), wide_w, 128);
  expect_close(to(b, DType::bfloat16), wide_b, 128);
}

TEST(AutocastTest, BackwardComputesInTheDtypesOfItsForwardPass) {
  Random random(4);
  const auto gradient = [&](bool inside) {
    Random same(5);
    const Tensor a = same.tensor({4, 6}), b = same.tensor({6, 5});
    a.set_requires_grad();
    const Tensor loss = sum(matmul(a, b));
    if (inside) {
      const Autocast mixed(DType::bfloat16);
      loss.backward();
    } else {
      loss.backward();
    }
    return a.grad();
  };
  expect_same_bits(gradient(true), gradient(false));
}

TEST(AutocastTest, ACheckpointedSegmentIsComputedAgainAsItWas) {
  const auto gradient = [](bool checkpointed) {
    Random random(6);
    const Tensor a = random.tensor({4, 6}), b = random.tensor({6, 5});
    a.set_requires_grad();
    const auto f = [&](const std::vector<Tensor>& in) { return matmul(in[0], b); };
    Tensor y;
    {
      const Autocast mixed(DType::bfloat16);
      y = checkpointed ? activation_checkpoint(f, {a}) : f({a});
    }
    sum(to(y, DType::float32)).backward();
    return a.grad();
  };
  expect_same_bits(gradient(true), gradient(false));
}

TEST(AutocastTest, LeavesFloat64AndOtherThreadsAlone) {
  const Autocast mixed(DType::bfloat16);
  const Tensor x = ones({2, 2}, {.dtype = DType::float64});
  EXPECT_EQ(matmul(x, x).dtype(), DType::float64);
  std::thread([] { EXPECT_FALSE(autocasting()); }).join();
  {
    const Autocast off(DType::float32);
    const Tensor y = ones({2, 2});
    EXPECT_EQ(matmul(y, y).dtype(), DType::float32);
  }
  EXPECT_TRUE(autocasting());
}

TEST(AutocastTest, RefusesDtypesThatCannotBeMixed) {
  expect_throws<DTypeError>([] { const Autocast mixed(DType::int32); },
                            "Autocast: the dtype must be bfloat16, float16 or float32; got int32");
  expect_throws<DTypeError>([] { const Autocast mixed(DType::float64); }, "got float64");
}

}  // namespace
}  // namespace ringrad
