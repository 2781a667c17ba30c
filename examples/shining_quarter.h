// Data that is learned in a few steps: grey images of noise with one bright quarter, whose index is
// the class.

#pragma once

#include <cstdint>

#include "ringrad/ringrad.h"

namespace ringrad {

inline constexpr nn::ImageTask kShiningQuarter{
    .channels = 1, .height = 8, .width = 8, .classes = 4};

/// Seven convolutions and a linear layer: eight parts with parameters, for up to eight stages.
inline nn::Sequential deep_convnet() {
  const auto conv = [](std::int64_t in) { return nn::Conv2d(in, 12, {.padding = 1}); };
  return nn::Sequential(conv(1), nn::ReLU(), conv(12), nn::ReLU(), conv(12), nn::ReLU(), conv(12),
                        nn::ReLU(), conv(12), nn::ReLU(), conv(12), nn::ReLU(), conv(12),
                        nn::ReLU(), nn::Sequential(nn::Flatten(), nn::Linear(768, 4)));
}

struct LabelledImages {
  Tensor images, labels;
};

/// `count` images (count, 1, 8, 8), the same for the same seed.
inline LabelledImages shining_quarters(std::int64_t count, std::uint64_t seed) {
  const Device device = default_device();
  const DefaultDeviceGuard on_host("cpu");
  Generator generator(seed);
  const Tensor labels = randint(0, 4, {count}, generator),
               images = randn({count, 1, 8, 8}, {}, generator);
  const auto classes = labels.to_vector<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t c = classes[static_cast<std::size_t>(i)];
    const std::int64_t row = c / 2 * 4, column = c % 2 * 4;
    const Tensor image = select(select(images, 0, i), 0, 0);
    add_(slice(slice(image, 0, row, row + 4), 1, column, column + 4), ones({}));
  }
  return {to(images, device), to(labels, device)};
}

}  // namespace ringrad
