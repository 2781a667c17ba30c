// one_tensor.cc with libtorch.

#include <torch/torch.h>

#include <cstdio>

int main() { std::printf("%g\n", torch::ones({2, 3}).sum().item<float>()); }
