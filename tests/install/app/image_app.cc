// Writes an image and reads it as a data set, with the only library that links libpng and libjpeg.

#include <cstdio>

#include "ringrad/data/image/image_folder.h"

int main() {
  using namespace ringrad;
  std::filesystem::create_directories("images/gray");
  write_png("images/gray/1.png", full({1, 2, 2}, 7, {.dtype = DType::uint8}));
  const ImageFolder images("images");
  const Batch batch = images.fetch(std::vector<std::int64_t>{0});
  std::printf("%s %d\n", images.classes()[0].c_str(), batch.input()[{0, 2, 1, 1}].item<int>());
}
