// Peer: operators and the cost of tiny operations in libtorch. The cases are in
// benchmarks/operator_cases.h.

#include <torch/torch.h>

#include "ringrad/benchmarks/operator_cases.h"

namespace ringrad::bench {
namespace {

using Shape = std::vector<int64_t>;

struct Torch {
  using Tensor = torch::Tensor;
  using Recording = torch::AutoGradMode;

  static Tensor normal(const Shape& shape) { return torch::randn(shape); }
  static Tensor ones(const Shape& shape) { return torch::ones(shape); }
  static Tensor classes(int64_t count, int64_t below) {
    return torch::randint(below, {count}, torch::kLong);
  }
  static Tensor channels_last(const Tensor& x) {
    return x.contiguous(torch::MemoryFormat::ChannelsLast);
  }

  static Tensor relu(const Tensor& x) { return torch::relu(x); }
  static Tensor sum(const Tensor& x, int axis) { return x.sum(axis); }
  static Tensor softmax(const Tensor& x, int axis) { return torch::softmax(x, axis); }
  static Tensor matmul(const Tensor& a, const Tensor& b) { return a.matmul(b); }
  static Tensor conv3x3(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return torch::conv2d(x, weight, bias, /*stride=*/1, /*padding=*/1);
  }
  static Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                           const Tensor& mean, const Tensor& var, bool with_relu) {
    const Tensor y =
        torch::batch_norm(x, weight, bias, mean, var, /*training=*/true, 0.1, 1e-5, false);
    return with_relu ? torch::relu(y) : y;
  }
  static Tensor cross_entropy(const Tensor& logits, const Tensor& target) {
    return torch::nn::functional::cross_entropy(logits, target);
  }
  static Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
#if TORCH_VERSION_MAJOR >= 2
    return at::scaled_dot_product_attention(q, k, v, {}, 0, causal);
#else  // no fused one for CPUs
    Tensor scores = torch::matmul(q, k.transpose(-2, -1)) / std::sqrt(double(q.size(-1)));
    if (causal) {
      const auto later = torch::ones({q.size(-2), k.size(-2)}, torch::kBool).triu(1);
      scores = scores.masked_fill(later, -std::numeric_limits<float>::infinity());
    }
    return torch::matmul(torch::softmax(scores, -1), v);
#endif
  }

  static void mark_leaf(Tensor& x) { x.requires_grad_(); }
  static void clear_grad(Tensor& x) { x.mutable_grad().reset(); }
  static void backward(const Tensor& y, const Tensor& grad) { y.backward(grad); }
};

}  // namespace
}  // namespace ringrad::bench

int main(int argc, char** argv) {
  using namespace ringrad::bench;
  return run_cases(argc, argv, "torch", operator_cases<Torch>());
}
