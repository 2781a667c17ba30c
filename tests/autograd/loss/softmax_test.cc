#include "ringrad/autograd/loss/softmax.h"

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

TEST(SoftmaxTest, GradientsAgreeWithDifferences) {
  for (const std::int64_t axis : {0, 1, -1}) {
    Random random(static_cast<std::uint64_t>(axis + 1));
    const Tensor x = random.tensor({3, 4, 5}, DType::float64).set_requires_grad();
    const auto p = [&](const std::vector<Tensor>& in) { return softmax(in[0], axis); };
    const auto log_p = [&](const std::vector<Tensor>& in) { return log_softmax(in[0], axis); };
    EXPECT_EQ(gradient_check(p, {x}), "");
    EXPECT_EQ(gradient_check(log_p, {x}), "");
    EXPECT_EQ(gradient_gradient_check(p, {x}), "");
    EXPECT_EQ(gradient_gradient_check(log_p, {x}), "");
  }
}

TEST(SoftmaxTest, GradientOfASumOfProbabilitiesVanishes) {
  Random random(3);
  const Tensor x = random.tensor({4, 70}).set_requires_grad();
  sum(softmax(x, 1)).backward();
  expect_close(x.grad(), zeros({4, 70}));
}

TEST(SoftmaxTest, LogSoftmaxIsTheLogarithmOfSoftmax) {
  Random random(4);
  const Tensor x = random.tensor({5, 6});
  expect_close(log_softmax(x, 0), log(softmax(x, 0)));
}

TEST(SoftmaxTest, WorksOn16BitDtypes) {
  Random random(5);
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor x = random.tensor({4, 9}, dtype).set_requires_grad();
    const Tensor y = softmax(x, -1);
    EXPECT_EQ(y.dtype(), dtype);
    sum(y * y).backward();
    EXPECT_EQ(x.grad().dtype(), dtype);
  }
}

TEST(SoftmaxTest, ThrowsAtTheCallersLine) {
  expect_throws<ShapeError>([] { softmax(zeros({2}), 1); }, "softmax");
  expect_throws<DTypeError>([] { log_softmax(zeros({2}, {.dtype = DType::int32}), 0); },
                            "log_softmax");
}

}  // namespace
}  // namespace ringrad
