// The definition of reductions, in double: which elements become one, and its value.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringrad::reference {

/// For each result, in row-major order of the kept axes, the elements that are reduced to it, in
/// row-major order.
inline std::vector<std::vector<double>> reduction_groups(const std::vector<double>& values,
                                                         const std::vector<std::int64_t>& shape,
                                                         const std::vector<bool>& reduced) {
  std::size_t results = 1;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (!reduced[i]) results *= static_cast<std::size_t>(shape[i]);
  std::vector<std::vector<double>> groups(results);
  for (std::size_t element = 0; element < values.size(); ++element) {
    std::size_t rest = element, result = 0, step = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
      const auto extent = static_cast<std::size_t>(shape[i]);
      if (!reduced[i]) {
        result += rest % extent * step;
        step *= extent;
      }
      rest /= extent;
    }
    groups[result].push_back(values[element]);
  }
  return groups;
}

inline double sum(const std::vector<double>& group) {
  double total = 0;
  for (const double x : group) total += x;
  return total;
}

inline double mean(const std::vector<double>& group) {
  return sum(group) / static_cast<double>(group.size());
}

inline double prod(const std::vector<double>& group) {
  double product = 1;
  for (const double x : group) product *= x;
  return product;
}

inline double norm(const std::vector<double>& group) {
  double squares = 0;
  for (const double x : group) squares += x * x;
  return std::sqrt(squares);
}

inline double var(const std::vector<double>& group, double correction) {
  const double center = mean(group);
  double total = 0;
  for (const double x : group) total += (x - center) * (x - center);
  return total / (static_cast<double>(group.size()) - correction);
}

/// The position of the first maximal element, or of the first NaN if there is one.
inline std::size_t argmax(const std::vector<double>& group) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (std::isnan(group[i])) return i;
    if (group[i] > group[best]) best = i;
  }
  return best;
}

inline std::size_t argmin(const std::vector<double>& group) {
  std::vector<double> negative;
  for (const double x : group) negative.push_back(-x);
  return argmax(negative);
}

}  // namespace ringrad::reference
