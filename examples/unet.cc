// A U-Net: a network that labels each pixel of an image. Here the pixels belong to a disc, a square
// or the background. Noise lies over all, and a shape's brightness does not tell its kind.
//
//     32 x 32   image -> block ------------------------- concatenate -> block -> 1 x 1 -> logits
//     16 x 16       pool -> block ------- concatenate -> block -> up
//      8 x 8                  pool -> block -> up
//
//     unet    prints the mean intersection over union of the three classes on new images
//
// Paper: Ronneberger, Fischer, Brox 2015, arXiv:1505.04597

#include <iostream>

#include "ringrad/ringrad.h"
using namespace ringrad;

constexpr std::int64_t kSide = 32, kClasses = 3;

struct Scenes {
  Tensor images;  // (B, 1, 32, 32)
  Tensor labels;  // (B, 32, 32): 0 background, 1 disc, 2 square
};

// Each with a disc and a square, which may hide the disc.
Scenes draw_scenes(std::int64_t count) {
  const Tensor y = reshape(arange(kSide), {kSide, 1}), x = reshape(arange(kSide), {1, kSide});
  Tensor images = randn({count, kSide, kSide}) * 0.2;
  Tensor labels = zeros({count, kSide, kSide}, {.dtype = DType::int64});
  for (const std::int64_t label : {1, 2}) {
    const Shape one_per_image{count, 1, 1};
    const Tensor down = abs(y - randint(6, kSide - 6, one_per_image)),
                 right = abs(x - randint(6, kSide - 6, one_per_image));
    const Tensor size = uniform(5, 9, one_per_image);
    const Tensor inside = label == 1 ? square(down) + square(right) < square(size)
                                     : maximum(down, right) < size * 0.85;
    labels = where(inside, label, labels);
    images = where(inside, images + uniform(1, 2, one_per_image), images);
  }
  return {unsqueeze(images, 1), labels};
}

// Two convolutions, each with a norm.
nn::Sequential block(std::int64_t in, std::int64_t out) {
  return nn::Sequential(nn::Conv2d(in, out, {.padding = 1}), nn::GroupNorm(4, out), nn::ReLU(),
                        nn::Conv2d(out, out, {.padding = 1}), nn::GroupNorm(4, out), nn::ReLU());
}

struct UNet : nn::Module {
  Tensor forward(const Tensor& x, Where at) override {
    const Tensor fine = down1(x, at), middle = down2(max_pool2d(fine), at);
    const Tensor coarse = bottom(max_pool2d(middle), at);
    const Tensor merged = join2(concatenate({middle, up2(coarse, at)}, 1), at);
    return head(join1(concatenate({fine, up1(merged, at)}, 1), at), at);
  }
  static nn::ConvTranspose2d up(std::int64_t in) {  // doubles the side, halves the channels
    return nn::ConvTranspose2d(in, in / 2, 2, {.stride = 2});
  }
  nn::Sequential &down1 = child("down1", block(1, 8)), &down2 = child("down2", block(8, 16)),
                 &bottom = child("bottom", block(16, 32)), &join2 = child("join2", block(32, 16)),
                 &join1 = child("join1", block(16, 8));
  nn::ConvTranspose2d &up2 = child("up2", up(32)), &up1 = child("up1", up(16));
  nn::Conv2d& head = child("head", nn::Conv2d(8, kClasses, 1));
};

// For each class, the pixels that have it in both, over those that have it in either; their mean.
double mean_iou(const Tensor& guesses, const Tensor& labels) {
  double total = 0;
  for (std::int64_t c = 0; c < kClasses; ++c) {
    const Tensor guessed = guesses == c, right = labels == c;
    const Tensor both = logical_and(guessed, right), either = logical_or(guessed, right);
    total += sum(both).item<double>() / sum(either).item<double>();
  }
  return total / kClasses;
}

int main() {
  UNet net;
  nn::Adam optimizer(net.parameters());
  constexpr int kSteps = 500;
  const nn::Schedule schedule = nn::cosine(0.01, kSteps);
  for (int step = 0; step < kSteps; ++step) {
    const Scenes scenes = draw_scenes(16);
    optimizer.set_learning_rate(schedule(step));
    optimizer.zero_grad();
    // cross_entropy takes rows of scores, so every pixel becomes a row.
    const Tensor by_pixel = flatten(permute(net(scenes.images), {0, 2, 3, 1}), 0, 2);
    const Tensor loss = cross_entropy(by_pixel, flatten(scenes.labels));
    loss.backward();
    optimizer.step();
    if (step % 100 == 99) std::cout << "step " << step + 1 << ", loss " << loss.item() << std::endl;
  }
  // Half of the rows of one test image: as drawn, and as the network sees it.
  const NoGradGuard no_grad;
  const Scenes test = draw_scenes(64);
  const Tensor guesses = argmax(net(test.images), 1);
  for (std::int64_t row = 0; row < kSide; row += 2, std::cout << '\n')
    for (const Tensor& classes : {test.labels, guesses})
      for (std::cout << "   "; const auto c : classes[{0, row}].to_vector<std::int64_t>())
        std::cout << ".o#"[c];
  std::cout << "mean IoU " << mean_iou(guesses, test.labels) << '\n';
}
