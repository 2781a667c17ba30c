// The definition of pooling and its gradients, in double, on contiguous (images, H, W) data.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringrad::reference {

struct Pool {
  std::int64_t images, H, W, P, Q;
  std::int64_t kernel_h = 0, kernel_w = 0, stride_h = 0, stride_w = 0, padding_h = 0, padding_w = 0;
  bool count_padding = true;
  bool adaptive = false;

  /// The inputs of output (p, q) as places in an image.
  std::vector<std::size_t> window(std::int64_t p, std::int64_t q) const {
    std::vector<std::size_t> places;
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t w = 0; w < W; ++w)
        if (contains(p, h, H, P, kernel_h, stride_h, padding_h) &&
            contains(q, w, W, Q, kernel_w, stride_w, padding_w))
          places.push_back(static_cast<std::size_t>(h * W + w));
    return places;
  }

  /// visit(output, its inputs)
  template <class Visit>
  void for_each_window(Visit visit) const {
    std::size_t output = 0;
    for (std::int64_t image = 0; image < images; ++image)
      for (std::int64_t p = 0; p < P; ++p)
        for (std::int64_t q = 0; q < Q; ++q) {
          std::vector<std::size_t> inputs = window(p, q);
          for (std::size_t& input : inputs) input += static_cast<std::size_t>(image * H * W);
          visit(output++, inputs);
        }
  }

  std::vector<double> max(const std::vector<double>& x) const {
    std::vector<double> y(outputs());
    for_each_window(
        [&](std::size_t output, const auto& inputs) { y[output] = x[winner(x, inputs)]; });
    return y;
  }
  std::vector<double> max_backward(const std::vector<double>& grad_y,
                                   const std::vector<double>& x) const {
    std::vector<double> grad(x.size(), 0.0);
    for_each_window(
        [&](std::size_t output, const auto& inputs) { grad[winner(x, inputs)] += grad_y[output]; });
    return grad;
  }
  std::vector<double> average(const std::vector<double>& x) const {
    std::vector<double> y(outputs(), 0.0);
    for_each_window([&](std::size_t output, const auto& inputs) {
      for (const std::size_t input : inputs) y[output] += x[input] / divisor(inputs);
    });
    return y;
  }
  std::vector<double> average_backward(const std::vector<double>& grad_y) const {
    std::vector<double> grad(static_cast<std::size_t>(images * H * W), 0.0);
    for_each_window([&](std::size_t output, const auto& inputs) {
      for (const std::size_t input : inputs) grad[input] += grad_y[output] / divisor(inputs);
    });
    return grad;
  }

 private:
  std::size_t outputs() const { return static_cast<std::size_t>(images * P * Q); }

  bool contains(std::int64_t output, std::int64_t input, std::int64_t extent,
                std::int64_t num_outputs, std::int64_t kernel, std::int64_t stride,
                std::int64_t padding) const {
    // floor(output * extent / outputs) <= input < ceil((output + 1) * extent / outputs)
    if (adaptive)
      return output * extent < (input + 1) * num_outputs &&
             input * num_outputs < (output + 1) * extent;
    const std::int64_t first = output * stride - padding;
    return first <= input && input < first + kernel;
  }
  double divisor(const std::vector<std::size_t>& inputs) const {
    return static_cast<double>(
        count_padding && !adaptive ? static_cast<std::size_t>(kernel_h * kernel_w) : inputs.size());
  }
  static std::size_t winner(const std::vector<double>& x, const std::vector<std::size_t>& inputs) {
    return *std::max_element(inputs.begin(), inputs.end(),
                             [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
  }
};

}  // namespace ringrad::reference
