// Normalization of one group of values, in double: a channel of batch norm, a row of layer norm.

#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace ringrad::reference {

struct Normalized {
  double mean = 0, var = 0, rstd = 0;
  std::vector<double> xhat;
};

/// mean, biased variance, and xhat = (x - mean) / sqrt(var + eps). Sums of thousands of values in
/// double would lose the very digits that are compared.
inline Normalized normalize(const std::vector<double>& x, double eps) {
  Normalized result;
  long double sum = 0, squares = 0;
  for (const double value : x) sum += value;
  result.mean = static_cast<double>(sum / static_cast<long double>(x.size()));
  for (const double value : x) squares += (value - result.mean) * (value - result.mean);
  result.var = static_cast<double>(squares / static_cast<long double>(x.size()));
  result.rstd = 1 / std::sqrt(result.var + eps);
  for (const double value : x) result.xhat.push_back((value - result.mean) * result.rstd);
  return result;
}

/// The gradient of x, given the gradient g of xhat: rstd * (g - mean(g) - xhat * mean(g * xhat)).
inline std::vector<double> normalize_backward(const Normalized& forward,
                                              const std::vector<double>& g) {
  double mean_g = 0, mean_gx = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    mean_g += g[i] / static_cast<double>(g.size());
    mean_gx += g[i] * forward.xhat[i] / static_cast<double>(g.size());
  }
  std::vector<double> grad;
  for (std::size_t i = 0; i < g.size(); ++i)
    grad.push_back(forward.rstd * (g[i] - mean_g - forward.xhat[i] * mean_gx));
  return grad;
}

}  // namespace ringrad::reference
