#include "ringrad/data/synthetic.h"

#include <cmath>
#include <numbers>

#include "ringrad/core/random/random.h"

namespace ringrad {
namespace {

constexpr double kFullTurn = 2 * std::numbers::pi;

struct Point {
  double radius, angle;
};

// centre(i) is the position of sample i without noise.
template <class Centre>
TensorDataset noisy_points(const char* operation, std::int64_t num_samples,
                           std::int64_t num_classes, double noise, std::uint64_t seed, Where where,
                           Centre centre) {
  RINGRAD_CHECK(num_samples >= 0 && num_classes >= 1 && noise >= 0, ValueError, where, operation,
                ": samples and noise must not be negative, and there must be a class; got ",
                num_samples, " samples, noise ", noise, " and ", num_classes, " classes");
  Generator generator(seed);
  const Tensor input = empty({num_samples, 2}, {.device = Device()}, where);
  const Tensor target = empty({num_samples}, {.dtype = DType::int64, .device = Device()}, where);
  normal_(input, 0, noise, generator, where);
  float* coordinates = input.data<float>();
  for (std::int64_t i = 0; i < num_samples; ++i) {
    const Point point = centre(i);
    *coordinates++ += static_cast<float>(point.radius * std::cos(point.angle));
    *coordinates++ += static_cast<float>(point.radius * std::sin(point.angle));
    target.data<std::int64_t>()[i] = i % num_classes;
  }
  return TensorDataset({input, target}, where);
}

double angle_of_class(std::int64_t i, std::int64_t num_classes) {
  return kFullTurn * static_cast<double>(i % num_classes) / static_cast<double>(num_classes);
}

}  // namespace

TensorDataset blobs(std::int64_t num_samples, std::int64_t num_classes, double noise,
                    std::uint64_t seed, Where where) {
  return noisy_points("blobs", num_samples, num_classes, noise, seed, where, [=](std::int64_t i) {
    return Point{1, angle_of_class(i, num_classes)};
  });
}

TensorDataset spirals(std::int64_t num_samples, std::int64_t num_classes, double noise,
                      std::uint64_t seed, double turns, Where where) {
  return noisy_points("spirals", num_samples, num_classes, noise, seed, where, [=](std::int64_t i) {
    const double radius = static_cast<double>(i + 1) / static_cast<double>(num_samples);
    return Point{radius, angle_of_class(i, num_classes) + turns * kFullTurn * radius};
  });
}

}  // namespace ringrad
