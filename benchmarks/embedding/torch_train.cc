// train.cc with libtorch, on one rank: libtorch has no ranks that are threads.

#include <torch/torch.h>

#include <cstdio>

int main() {
  using namespace torch;
  nn::Sequential net(nn::Conv2d(1, 8, 3), nn::BatchNorm2d(8), nn::ReLU(), nn::Flatten(),
                     nn::Linear(8 * 6 * 6, 10));
  optim::SGD optimizer(net->parameters(), 0.1);
  nn::functional::cross_entropy(net->forward(torch::ones({4, 1, 8, 8})),
                                torch::tensor({1, 2, 3, 4}, kInt64))
      .backward();
  optimizer.step();
  std::printf("%g\n", net->parameters()[0].sum().item<float>());
}
