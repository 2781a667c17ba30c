// The operator cases, written once for us and for libtorch, so that both do the same work.
//
//   op/add mul relu         elementwise, 1e3 to 1e7 elements          GB/s of the traffic that is
//   op/sum softmax          4096 x 4096 (last, first axis), 4096 x 1024    the least possible
//   op/matmul conv          square; 3x3 with 64 output channels       GFLOP/s; backward = 2 forward
//   op/batch_norm[_relu]    training mode, forward and backward
//   op/cross_entropy        4096 x 1000, forward and backward
//   op/attention            causal, heads of 64, forward and backward; one query with kept keys
//   eager/...               eager_cases.h
//
// `Library` adapts a library to the names used here; ringrad_ops.cc and peers/torch_ops.cc each
// define one:
//
//   Tensor                            with operators + and *, and backward()
//   Recording(bool)                   switches the tape on or off for a scope
//   normal(shape)  ones(shape)  classes(count, below)  channels_last(x)
//   relu(x)  sum(x, axis)  softmax(x, axis)  matmul(a, b)  conv3x3(x, weight, bias)
//   batch_norm(x, weight, bias, mean, var, with_relu)      cross_entropy(logits, targets)
//   attention(q, k, v, causal)
//   mark_leaf(x)  clear_grad(x)  backward(y, grad)

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/benchmarks/cases.h"
#include "ringrad/benchmarks/eager_cases.h"

namespace ringrad::bench {

template <class Library>
std::vector<Case> operator_cases();

// Implementation details follow.

template <class Library>
class OperatorCases {
 public:
  using Tensor = typename Library::Tensor;
  using Tensors = std::vector<Tensor>;
  using Extents = std::vector<std::int64_t>;
  enum class Layout { contiguous, channels_last };

  std::vector<Case> all() {
    for (std::int64_t n : {1'000, 100'000, 10'000'000}) add_elementwise(n);
    add_reductions();
    for (std::int64_t n : {256, 512, 1024, 2048}) add_matmul(n);
    for (Layout layout : {Layout::contiguous, Layout::channels_last}) {
      add_convolution(64, 64, 56, layout);
      add_convolution(128, 32, 28, layout);
      add_batch_norm(false, layout);
      add_batch_norm(true, layout);
    }
    add_cross_entropy();
    add_attention(4, 8, 1024);
    add_attention(32, 4, 128);
    for (std::int64_t S : {1, 128, 1024}) add_decoding(8, 8, S);
    EagerCases<Library>::append_to(cases_);
    return std::move(cases_);
  }

 private:
  // `prepare` makes the data and returns the function to be timed.
  template <class Prepare>
  void add(const std::string& name, Work work, Prepare prepare) {
    cases_.push_back(
        {name, [=](const Report& report) { report.time_calls(name, work, prepare()); }});
  }

  static std::string variant(Layout layout) {
    return layout == Layout::channels_last ? "@channels_last" : "";
  }

  static Tensor image(const std::vector<std::int64_t>& shape, Layout layout) {
    const Tensor x = Library::normal(shape);
    return layout == Layout::channels_last ? Library::channels_last(x) : x;
  }

  void add_elementwise(std::int64_t n) {
    const auto row = [&](const std::string& op, double bytes_per_element, auto function) {
      add("op/" + op + "/N:" + std::to_string(n), bytes(bytes_per_element * static_cast<double>(n)),
          [=] {
            return [=, a = Library::normal({n}), b = Library::normal({n})] {
              const typename Library::Recording off(false);
              function(a, b);
            };
          });
    };
    row("add", 12, [](const Tensor& a, const Tensor& b) { return a + b; });
    row("mul", 12, [](const Tensor& a, const Tensor& b) { return a * b; });
    row("relu", 8, [](const Tensor& a, const Tensor&) { return Library::relu(a); });
  }

  void add_reductions() {
    for (int axis : {1, 0}) {
      add(axis == 1 ? "op/sum_last/4096x4096" : "op/sum_first/4096x4096", bytes(4.0 * 4096 * 4096),
          [=] {
            return [=, x = Library::normal({4096, 4096})] { Library::sum(x, axis); };
          });
    }
    add("op/softmax/4096x1024", bytes(8.0 * 4096 * 1024), [] {
      return [x = Library::normal({4096, 1024})] { Library::softmax(x, 1); };
    });
  }

  void add_matmul(std::int64_t n) {
    const double size = static_cast<double>(n);
    add("op/matmul/N:" + std::to_string(n), flops(2 * size * size * size), [=] {
      return [a = Library::normal({n, n}), b = Library::normal({n, n})] { Library::matmul(a, b); };
    });
  }

  // A call that runs forward, then backward from a given gradient, with fresh gradients each time.
  template <class Forward>
  static std::function<void()> forward_backward(Tensors leaves, Tensor grad_output,
                                                Forward forward) {
    for (Tensor& leaf : leaves) Library::mark_leaf(leaf);
    return [=]() mutable {
      for (Tensor& leaf : leaves) Library::clear_grad(leaf);
      Library::backward(forward(leaves), grad_output);
    };
  }

  void add_convolution(std::int64_t batch, std::int64_t channels, std::int64_t size,
                       Layout layout) {
    constexpr std::int64_t kOutputs = 64;
    const std::string extents = "/B:" + std::to_string(batch) + "/C:" + std::to_string(channels) +
                                "/H:" + std::to_string(size) + "/K:64" + variant(layout);
    const double work = 2.0 * static_cast<double>(batch * kOutputs * channels * 9 * size * size);
    const auto tensors = [=] {
      return Tensors{image({batch, channels, size, size}, layout),
                     image({kOutputs, channels, 3, 3}, layout), Library::normal({kOutputs})};
    };
    const auto conv = [](const Tensors& t) { return Library::conv3x3(t[0], t[1], t[2]); };
    add("op/conv_forward" + extents, flops(work), [=] { return [=, t = tensors()] { conv(t); }; });
    add("op/conv_forward_backward" + extents, flops(3 * work), [=] {
      return forward_backward(tensors(), image({batch, kOutputs, size, size}, layout), conv);
    });
  }

  void add_batch_norm(bool relu, Layout layout) {
    const std::string name = std::string(relu ? "op/batch_norm_relu" : "op/batch_norm") +
                             "_forward_backward/B:64/C:64/H:56" + variant(layout);
    add(name, {}, [=] {
      const auto norm = [=, mean = Library::normal({64}),
                         var = Library::ones({64})](const Tensors& t) {
        return Library::batch_norm(t[0], t[1], t[2], mean, var, relu);
      };
      return forward_backward(
          {image({64, 64, 56, 56}, layout), Library::ones({64}), Library::normal({64})},
          image({64, 64, 56, 56}, layout), norm);
    });
  }

  void add_cross_entropy() {
    add("op/cross_entropy_forward_backward/4096x1000", {}, [] {
      return forward_backward({Library::normal({4096, 1000})}, Library::ones({}),
                              [target = Library::classes(4096, 1000)](const Tensors& t) {
                                return Library::cross_entropy(t[0], target);
                              });
    });
  }

  static constexpr std::int64_t kHeadSize = 64;

  void add_attention(std::int64_t B, std::int64_t H, std::int64_t T) {
    const Extents extents{B, H, T, kHeadSize};
    const auto name = "op/attention_forward_backward/B:" + std::to_string(B) +
                      "/H:" + std::to_string(H) + "/T:" + std::to_string(T);
    const auto scores = static_cast<double>(B * H * T * T) / 2;  // of a causal attention
    add(name, flops(2 * 7 * scores * kHeadSize), [=] {
      return forward_backward(
          {Library::normal(extents), Library::normal(extents), Library::normal(extents)},
          Library::ones(extents),
          [](const Tensors& t) { return Library::attention(t[0], t[1], t[2], true); });
    });
  }

  void add_decoding(std::int64_t B, std::int64_t H, std::int64_t S) {
    const auto name = "op/attention_one_query/B:" + std::to_string(B) + "/H:" + std::to_string(H) +
                      "/S:" + std::to_string(S);
    const auto bytes_read = static_cast<double>(2 * B * H * S * kHeadSize) * sizeof(float);
    add(name, bytes(bytes_read), [=] {
      return [q = Library::normal({B, H, 1, kHeadSize}), k = Library::normal({B, H, S, kHeadSize}),
              v = Library::normal({B, H, S, kHeadSize})] {
        const typename Library::Recording off(false);
        Library::attention(q, k, v, false);
      };
    });
  }

  std::vector<Case> cases_;
};

template <class Library>
std::vector<Case> operator_cases() {
  return OperatorCases<Library>().all();
}

}  // namespace ringrad::bench
