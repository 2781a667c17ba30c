// A data set of one's own: pictures of bars, drawn when the loader asks for them. A picture depends
// on its index alone, so any number of the loader's threads gives the same batches.
//
//     own_data_set    shows four pictures, then trains a network that tells rows from columns

#include <iostream>

#include "ringrad/ringrad.h"
using namespace ringrad;

constexpr std::int64_t kSide = 8;

// Inputs (B, 1, 8, 8) of float32: noise, and a brighter row (target 0) or column (target 1).
struct Bars final : Dataset {
  Bars(std::uint64_t seed, std::int64_t size) : seed_(seed), size_(size) {}
  std::int64_t size() const override { return size_; }
  Batch fetch(std::span<const std::int64_t> indices, Where where) const override {
    std::vector<Tensor> pictures;
    std::vector<std::int64_t> targets;
    for (const std::int64_t i : indices) {
      RINGRAD_CHECK(i >= 0 && i < size_, IndexError, where, "Bars: an index must be in [0, ", size_,
                    "); got ", i);
      Generator generator(seed_ + static_cast<std::uint64_t>(i));
      const Tensor picture = randn({1, kSide, kSide}, {.device = Device()}, generator);
      const std::int64_t place = i / 2 % kSide, is_column = i % 2;
      add_(is_column ? picture[{0, Slice(), place}] : picture[{0, place}], 2);
      pictures.push_back(picture);
      targets.push_back(is_column);
    }
    return {{stack(pictures), tensor(targets)}};
  }

  const std::uint64_t seed_;
  const std::int64_t size_;
};

int main() {
  const Bars data(0, 2048), test(1'000'000, 512);
  const Tensor few = data.fetch(std::vector<std::int64_t>{4, 5, 10, 11}, Where::current()).input();
  for (std::int64_t row = 0; row < kSide; ++row, std::cout << '\n')
    for (const Tensor& picture : few)
      for (std::cout << "   "; const Tensor& pixel : picture[{0, row}])
        std::cout << (pixel.item() > 1 ? '#' : '.');

  nn::Sequential net(nn::Flatten(), nn::Linear(kSide * kSide, 32), nn::ReLU(), nn::Linear(32, 2));
  nn::Adam optimizer(net.parameters(), {.learning_rate = 0.01});
  RandomSampler order(data.size());
  DataLoader loader(data, order, {.batch_size = 64, .num_workers = 2});
  for (int epoch = 0; epoch < 5; ++epoch)
    for (const Batch& batch : loader) {
      optimizer.zero_grad();
      cross_entropy(net(batch.input()), batch.target()).backward();
      optimizer.step();
    }
  SequentialSampler in_order(test.size());
  for (const Batch& all : DataLoader(test, in_order, {.batch_size = test.size()})) {
    const Tensor is_right = argmax(net(all.input()), 1) == all.target();
    std::cout << "test accuracy " << mean(to(is_right, DType::float32)).item() << '\n';
  }
}
