#include "ringrad/nn/models/models.h"

#include <cmath>
#include <sstream>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/init.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using ringrad::testing::expect_throws;

constexpr ImageTask kImageNet{.channels = 3, .height = 224, .width = 224, .classes = 1000};

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::string printed(const Module& module) {
  std::ostringstream out;
  out << module;
  return out.str();
}

bool simulated() { return default_device().is_cuda() && is_cuda_simulated(); }

double root_mean_square(const Tensor& x) {
  double sum = 0;
  for (const double value : x.to_vector<double>()) sum += value * value;
  return std::sqrt(sum / static_cast<double>(x.numel()));
}

TEST(ModelsTest, HaveTheSizesOfTheLiterature) {
  EXPECT_EQ(convnet().num_parameters(), 421'834);
  // 0.27 M of He et al., table 6, plus the 1x1 projections and their norms.
  EXPECT_EQ(resnet20({.channels = 3, .height = 32, .width = 32}).num_parameters(), 269'722 + 2'752);
  EXPECT_EQ(mlp().num_parameters(), 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10);
  // torchvision's resnet18 and resnet50.
  EXPECT_EQ(resnet18(kImageNet).num_parameters(), 11'689'512);
  EXPECT_EQ(resnet50(kImageNet).num_parameters(), 25'557'032);
}

TEST(ModelsTest, MapImagesToClassScores) {
  for (const std::string& name : model_names()) {
    Sequential net = make_model(name);
    EXPECT_EQ(net(zeros({2, 1, 28, 28})).shape(), Shape({2, 10})) << name;
  }
  expect_throws<ValueError>([] { make_model("vgg"); }, "resnet18 or resnet50; got \"vgg\"");
}

// Numbers of parameters do not show strides. In a block that halves the image, the first 3x3
// convolution and the shortcut have stride 2; in the stem, the convolution and the pool do.
TEST(ModelsTest, ResidualNetworksHalveImagesWhereTorchvisionsDo) {
  for (const std::string& net : {printed(resnet18(kImageNet)), printed(resnet50(kImageNet))}) {
    EXPECT_EQ(count(net, "kernel 7, stride 2, padding 3, no bias)"), 1) << net;
    EXPECT_EQ(count(net, "kernel 3, stride 2, padding 1, no bias)"), 3) << net;
    EXPECT_EQ(count(net, "kernel 1, stride 2, no bias)"), 3) << net;
    EXPECT_EQ(count(net, "MaxPool2d(kernel 3, stride 2, padding 1)"), 1) << net;
  }
}

TEST(ModelsTest, FiltersForImageNetAreDrawnByFanOut) {
  if (simulated()) GTEST_SKIP() << "eleven million normal numbers";
  manual_seed(1);
  const Sequential net = resnet18(kImageNet);
  for (const auto& [name, weight] : net.named_parameters()) {
    if (weight.dims() != 4 || weight.numel() > 200'000) continue;  // the rest are enough
    const double expected = std::sqrt(2.0 / static_cast<double>(fans_of(weight.shape()).out));
    EXPECT_NEAR(root_mean_square(weight) / expected, 1, 0.05) << name;
  }
}

// A step against the gradient lowers the loss, and no parameter was left out.
TEST(ModelsTest, ResidualNetworksLearn) {
  if (simulated()) GTEST_SKIP() << "ten seconds on a simulated GPU";
  for (Sequential (*make)(const ImageTask&) : {resnet18, resnet50}) {
    manual_seed(2);
    Sequential net = make({.channels = 3, .height = 64, .width = 64});
    const Tensor x = randn({2, 3, 64, 64}), target = randint(0, 10, {2});
    const Tensor loss = cross_entropy(net(x), target);
    loss.backward();
    double squares = 0;
    for (const auto& [name, parameter] : net.named_parameters()) {
      ASSERT_TRUE(parameter.grad().defined()) << name;
      const double size = root_mean_square(parameter.grad());
      EXPECT_GT(size, 0) << name;
      squares += size * size * static_cast<double>(parameter.numel());
    }
    const double step = 0.02 / squares * static_cast<double>(loss.item());
    for (const Tensor& parameter : net.parameters())
      add_(parameter.detach(), parameter.grad() * -step);
    EXPECT_LT(cross_entropy(net(x), target).item(), loss.item());
  }
}

}  // namespace
}  // namespace ringrad::nn
