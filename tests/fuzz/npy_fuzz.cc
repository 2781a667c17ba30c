// Arrays of NumPy, plain and in gzip. What was read is the same after it was written.

#include <cstring>

#include "ringrad/data/npy.h"
#include "ringrad/tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringrad;
  static fuzz::MemoryFile file;
  file.hold(fuzz::text_of(data, size));
  fuzz::takes<DataError>([&] {
    const Tensor x = read_npy(file.path());
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("ringrad_npy_fuzz_" + std::to_string(getpid()));
    write_npy(path, x);
    const Tensor y = read_npy(path);
    std::filesystem::remove(path);
    fuzz::must(x.dtype() == y.dtype() && x.shape() == y.shape(), "dtype and shape stay");
    if (x.is_contiguous() && x.numel() > 0)
      fuzz::must(std::memcmp(x.raw_data(), y.raw_data(), y.storage()->bytes()) == 0, "bytes stay");
  });
  return 0;
}
