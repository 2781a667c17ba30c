// A data set of image files, in a folder per class (library ringrad_image).
//
//     image_folder [DIR]    trains on DIR/train/<class>/*.png and .jpg, and prints how many of
//                           DIR/test it recognises; default shapes, where it first draws images

#include "ringrad/data/image/image_folder.h"

#include <iostream>

#include "ringrad/ringrad.h"
using namespace ringrad;

// Discs and squares on noise, in images of many sizes and colors.
void draw(const std::filesystem::path& folder, int count) {
  for (int i = 0; i < count; ++i) {
    const std::int64_t side = 20 + i % 5 * 8, is_disc = i % 2;
    const Tensor y = reshape(arange(side), {side, 1}), x = reshape(arange(side), {1, side});
    const Tensor center = uniform(0.4, 0.6, {2}) * side, size = uniform(0.25, 0.4, {1}) * side;
    const Tensor down = abs(y - center[0]), right = abs(x - center[1]);
    const Tensor inside =
        is_disc ? square(down) + square(right) < square(size) : maximum(down, right) < size * 0.85;
    const Tensor image =
        uniform(0, 80, {3, side, side}) + where(inside, uniform(60, 170, {3, 1, 1}), 0);
    const std::filesystem::path place = folder / (is_disc ? "disc" : "square");
    std::filesystem::create_directories(place);
    write_png(place / (std::to_string(i) + ".png"), to(image, DType::uint8));
  }
}

int main(int argc, char** argv) try {
  const std::filesystem::path root = argc > 1 ? argv[1] : "shapes";
  if (argc < 2) draw(root / "train", 300), draw(root / "test", 100);
  const auto prepare = [](const Tensor& image, Where where) {
    return resize(image, {24, 24}, where);
  };
  const ImageFolder images(root / "train", {.prepare = prepare}),
      test(root / "test", {.prepare = prepare});
  nn::Sequential net(nn::Conv2d(3, 8, 5), nn::ReLU(), nn::MaxPool2d(2), nn::Conv2d(8, 16, 3),
                     nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
                     nn::Linear(16 * 4 * 4, std::ssize(images.classes())));
  nn::Adam optimizer(net.parameters(), {.learning_rate = 0.003});
  const Transform scale = normalize({0.3f}, {0.25f});
  RandomSampler order(images.size());
  DataLoader loader(images, order, {.batch_size = 20, .num_workers = 2, .transforms = {scale}});
  for (int epoch = 0; epoch < 10; ++epoch)
    for (const Batch& batch : loader) {
      optimizer.zero_grad();
      cross_entropy(net(batch.input()), batch.target()).backward();
      optimizer.step();
    }
  SequentialSampler in_order(test.size());
  DataLoader all(test, in_order, {.batch_size = test.size(), .transforms = {scale}});
  const Batch batch = *all.begin();
  const Tensor is_right = argmax(net(batch.input()), 1) == batch.target();
  std::cout << "test accuracy " << mean(to(is_right, DType::float32)).item() << '\n';
} catch (const Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
