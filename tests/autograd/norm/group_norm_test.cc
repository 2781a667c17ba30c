#include "ringrad/autograd/norm/group_norm.h"

#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

TEST(AutogradGroupNormTest, GradientsAgreeWithDifferences) {
  Random random(1);
  const auto leaf = [&](const Shape& shape, bool learns = true) {
    return random.tensor(shape, DType::float64).set_requires_grad(learns);
  };
  for (const Shape& shape : {Shape{3, 4}, Shape{2, 4, 3}, Shape{2, 4, 2, 2}})
    for (const std::int64_t groups : {1, 2}) {
      SCOPED_TRACE(concat(shape, ' ', groups, " groups"));
      const auto f = [=](const std::vector<Tensor>& in) {
        return group_norm(in[0], groups, in[1], in[2]);
      };
      const auto bare = [=](const std::vector<Tensor>& in) { return group_norm(in[0], groups); };
      EXPECT_EQ(gradient_check(bare, {leaf(shape)}), "");
      EXPECT_EQ(gradient_gradient_check(bare, {leaf(shape)}), "");
      for (int wanted = 0; wanted < 4; ++wanted) {  // 3: all of them
        const std::vector<Tensor> inputs{leaf(shape, wanted % 3 == 0), leaf({4}, wanted % 2 == 1),
                                         leaf({4}, wanted >= 2)};
        EXPECT_EQ(gradient_check(f, inputs), "") << "input " << wanted;
        EXPECT_EQ(gradient_gradient_check(f, inputs), "") << "input " << wanted;
      }
    }
}

TEST(AutogradGroupNormTest, InstanceNormHasOneGroupPerChannel) {
  Random random(2);
  const Tensor x = random.tensor({2, 3, 4, 5}), weight = random.tensor({3}),
               bias = random.tensor({3});
  expect_close(instance_norm(x, weight, bias), group_norm(x, 3, weight, bias));
}

TEST(AutogradGroupNormTest, RecordedGradientsOfHalvesEqualTheFusedOnes) {
  Random random(7);
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor x = random.tensor({2, 4, 3}, 99, 101, dtype).set_requires_grad();
    const Tensor weight = random.tensor({4}, dtype).set_requires_grad();
    const Tensor bias = random.tensor({4}).set_requires_grad();
    const Tensor weights = random.tensor({2, 4, 3}, dtype);
    const Tensor y = group_norm(x, 2, weight, bias);
    EXPECT_EQ(y.dtype(), dtype);
    for (const Tensor& input : {x, weight, bias}) {
      const Tensor fused = grad(y, input, weights, {.retain_graph = true});
      const Tensor recorded = grad(y, input, weights, {.create_graph = true});
      EXPECT_EQ(fused.dtype(), input.dtype());
      EXPECT_EQ(recorded.dtype(), input.dtype());
      expect_close(recorded, fused, 64);
    }
  }
}

TEST(AutogradGroupNormTest, NoExamplesGiveZeroGradients) {
  for (const bool create_graph : {false, true}) {
    const Tensor weight = ones({4}).set_requires_grad();
    const Tensor loss = sum(group_norm(zeros({0, 4, 2}), 2, weight));
    expect_close(grad(loss, weight, {}, {.create_graph = create_graph}), zeros({4}));
  }
}

TEST(AutogradGroupNormTest, NoChannelsGiveEmptyGradients) {
  const Tensor x = zeros({2, 0, 3}).set_requires_grad(), weight = ones({0}).set_requires_grad();
  const Tensor y = instance_norm(x, weight);
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_EQ(grad(sum(y), x).shape(), x.shape());
  EXPECT_EQ(grad(sum(instance_norm(x, weight)), weight).shape(), (Shape{0}));
}

TEST(AutogradGroupNormTest, ThrowsAtTheCallersLine) {
  const Tensor x = zeros({2, 4, 3});
  expect_throws<ShapeError>([&] { group_norm(x, 3); }, "group_norm: ");
  expect_throws<ShapeError>([&] { group_norm(x, 2, {}, zeros({2})); }, "group_norm: ");
  expect_throws<ShapeError>(
      [&] {
        instance_norm(zeros({2, 4}));
      },
      "instance_norm: x must be (B, C, ...) with at least three axes; got (2, 4)");
  expect_throws<ShapeError>(
      [&] {
        instance_norm(zeros({2, 4, 1, 1}));
      },
      "instance_norm: a channel needs more than one position");
  expect_throws<DeviceError>(
      [&] { group_norm(x, 2, zeros({4}, {.device = Device(DeviceType::cpu, 1)})); }, "group_norm");
}

}  // namespace
}  // namespace ringrad
