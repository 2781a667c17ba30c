// Several threads that call one network in evaluation mode.

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "ringrad/autograd/grad_mode.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/convolution.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/layers/transformer.h"

namespace ringrad::nn {
namespace {

// Each thread computes what one thread alone computes.
void expect_threads_agree(Module& net, const Tensor& x) {
  net.eval();
  const auto predict = [&] {
    const NoGradGuard no_grad;
    return net(x).to_vector<float>();
  };
  const std::vector<float> alone = predict();
  std::array<int, 4> num_equal{};
  std::vector<std::thread> threads;
  for (int& count : num_equal)
    threads.emplace_back([&] {
      for (int call = 0; call < 8; ++call) count += predict() == alone;
    });
  for (std::thread& thread : threads) thread.join();
  for (const int count : num_equal) EXPECT_EQ(count, 8);
}

TEST(ThreadsTest, MayCallOneNetworkOfConvolutions) {
  Sequential net(Conv2d(3, 8, 3, {.padding = 1}), BatchNorm2d(8), ReLU(), Dropout(0.5), Flatten(),
                 Linear(8 * 8 * 8, 5));
  expect_threads_agree(net, randn({2, 3, 8, 8}));
}

TEST(ThreadsTest, MayCallOneTransformer) {
  TransformerBlock net(16, 4, {.causal = true, .dropout = 0.5});
  expect_threads_agree(net, randn({2, 7, 16}));
}

}  // namespace
}  // namespace ringrad::nn
