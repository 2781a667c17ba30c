// Softmax of one row, in double.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace ringrad::reference {

/// log sum_j exp(x_j)
inline double log_sum_exp(const std::vector<double>& x) {
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const double value : x) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

inline std::vector<double> log_softmax(const std::vector<double>& x) {
  const double log_sum = log_sum_exp(x);
  std::vector<double> y;
  for (const double value : x) y.push_back(value - log_sum);
  return y;
}

inline std::vector<double> softmax(const std::vector<double>& x) {
  std::vector<double> y;
  for (const double value : log_softmax(x)) y.push_back(std::exp(value));
  return y;
}

/// grad_i = sum_j g_j dy_j/dx_i,  dy_j/dx_i = y_j ([i = j] - y_i)
inline std::vector<double> softmax_backward(const std::vector<double>& g,
                                            const std::vector<double>& y) {
  std::vector<double> grad(y.size(), 0);
  for (std::size_t i = 0; i < y.size(); ++i)
    for (std::size_t j = 0; j < y.size(); ++j) grad[i] += g[j] * y[j] * ((i == j) - y[i]);
  return grad;
}

/// grad_i = sum_j g_j dy_j/dx_i,  dy_j/dx_i = [i = j] - exp(y_i)
inline std::vector<double> log_softmax_backward(const std::vector<double>& g,
                                                const std::vector<double>& y) {
  std::vector<double> grad(y.size(), 0);
  for (std::size_t i = 0; i < y.size(); ++i)
    for (std::size_t j = 0; j < y.size(); ++j) grad[i] += g[j] * ((i == j) - std::exp(y[i]));
  return grad;
}

}  // namespace ringrad::reference
