// JPEG files.

#include <span>

#include "ringrad/data/image/image.h"
#include "ringrad/tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringrad;
  const std::span bytes(data, size);
  fuzz::takes<DataError>([&] {
    const Tensor image = decode_image(std::as_bytes(bytes));
    fuzz::must(image.dims() == 3 && image.numel() > 0, "an image has pixels");
  });
  return 0;
}
