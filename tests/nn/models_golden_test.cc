// resnet18 and resnet50 against PyTorch: the names and shapes of torchvision's state dicts, and the
// scores for weights and images that both sides compute as waves.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/nn/models/models.h"
#include "ringrad/tests/golden/golden.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

constexpr std::string_view kBatchCount = "num_batches_tracked";

const std::map<std::string, testing::GoldenCase>& golden() {
  static const auto cases = testing::read_golden("models");
  return cases;
}

// offset + scale sin(1.7 i + phase) for element i.
Tensor wave(const Shape& shape, double phase, double offset, double scale) {
  const Tensor x = empty(shape, {.device = Device()});
  for (std::int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] =
        static_cast<float>(offset + scale * std::sin(1.7 * static_cast<double>(i) + phase));
  return x;
}

// As models() of make_golden.py.
Tensor wave_for(const std::string& name, const Shape& shape, double phase) {
  if (name.ends_with("running_var")) return wave(shape, phase, 1, 0.5);
  if (shape.size() == 1)
    return wave(shape, phase, name.find("weight") != std::string::npos ? 1 : 0, 0.1);
  const double fan_in = static_cast<double>(shape.numel() / shape[0]);
  return wave(shape, phase, 0, std::sqrt(2 / fan_in));
}

TEST(ModelsGoldenTest, StateDictsHaveTorchvisionsNamesAndShapes) {
  for (const std::string name : {"resnet18", "resnet50"}) {
    SCOPED_TRACE(name);
    const ImageTask task{.channels = 3, .height = 224, .width = 224, .classes = 1000};
    const StateDict state = make_model(name, task).state_dict();
    std::size_t num_counts = 0;
    for (const auto& [key, shape] : golden().at(name + " shapes")) {
      if (key.ends_with(kBatchCount)) {
        ++num_counts;
        continue;
      }
      ASSERT_TRUE(state.contains(key)) << key;
      const auto extents = shape.to_vector<std::int64_t>();
      EXPECT_EQ(state.at(key).shape(), Shape(extents)) << key;
    }
    EXPECT_EQ(state.size() + num_counts, golden().at(name + " shapes").size());
  }
}

TEST(ModelsGoldenTest, ScoresAreThoseOfPyTorch) {
  if (default_device().is_cuda() && is_cuda_simulated()) GTEST_SKIP() << "too large to simulate";
  for (const std::string name : {"resnet18", "resnet50"}) {
    SCOPED_TRACE(name);
    Sequential net = make_model(name, {.channels = 3, .height = 64, .width = 64, .classes = 10});
    StateDict state;
    double phase = 0;
    for (const auto& [key, tensor] : net.state_dict())
      state[key] = wave_for(key, tensor.shape(), phase++);
    // A file of PyTorch's also counts the batches of each norm.
    state["bn1.num_batches_tracked"] = scalar_tensor(7, {.dtype = DType::int64});
    net.load_state_dict(state);
    net.eval();
    const NoGradGuard no_grad;
    const Tensor scores = net(to(wave({2, 3, 64, 64}, 0, 0, 1), default_device()));
    const auto actual = scores.to_vector<double>();
    const auto expected = golden().at(name + " scores").at("scores").to_vector<double>();
    double largest = 0;
    for (const double score : expected) largest = std::max(largest, std::abs(score));
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(actual[i] / largest, expected[i] / largest, 1e-5) << i;
  }
}

}  // namespace
}  // namespace ringrad::nn
