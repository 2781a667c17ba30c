// Our side of the comparison: operators and the cost of tiny operations. The cases are in
// operator_cases.h.

#include "ringrad/autograd/attention/attention.h"
#include "ringrad/autograd/convolution/convolution.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/loss/softmax.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/norm/batch_norm.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/benchmarks/operator_cases.h"
#include "ringrad/core/random/random.h"

namespace ringrad::bench {
namespace {

struct Ringrad {
  using Tensor = ringrad::Tensor;
  using Recording = GradMode;
  using Extents = std::vector<std::int64_t>;

  static Tensor normal(const Extents& extents) { return randn(Shape(extents)); }
  static Tensor ones(const Extents& extents) { return ringrad::ones(Shape(extents)); }
  static Tensor classes(std::int64_t count, std::int64_t below) {
    return randint(0, below, {count});
  }
  static Tensor channels_last(const Tensor& x) { return to_layout(x, Layout::channels_last); }

  static Tensor relu(const Tensor& x) { return ringrad::relu(x); }
  static Tensor sum(const Tensor& x, int axis) { return ringrad::sum(x, {axis}); }
  static Tensor softmax(const Tensor& x, int axis) { return ringrad::softmax(x, axis); }
  static Tensor matmul(const Tensor& a, const Tensor& b) { return ringrad::matmul(a, b); }
  static Tensor conv3x3(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return conv2d(x, weight, bias, {.padding = {1, 1}});
  }
  static Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                           const Tensor& mean, const Tensor& var, bool with_relu) {
    return ringrad::batch_norm(x, weight, bias, mean, var, {.relu = with_relu});
  }
  static Tensor cross_entropy(const Tensor& logits, const Tensor& targets) {
    return ringrad::cross_entropy(logits, targets);
  }
  static Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
    return scaled_dot_product_attention(q, k, v, {.causal = causal});
  }

  static void mark_leaf(Tensor& x) { x.set_requires_grad(); }
  static void clear_grad(Tensor& x) { x.set_grad({}); }
  static void backward(const Tensor& y, const Tensor& grad) { y.backward(grad); }
};

}  // namespace
}  // namespace ringrad::bench

int main(int argc, char** argv) {
  using namespace ringrad::bench;
  return run_cases(argc, argv, "ringrad", operator_cases<Ringrad>());
}
