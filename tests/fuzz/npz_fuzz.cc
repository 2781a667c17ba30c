// Archives of NumPy's arrays. What was read is the same after it was written.

#include "ringrad/data/npz.h"
#include "ringrad/tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringrad;
  static fuzz::MemoryFile file;
  file.hold(fuzz::text_of(data, size));
  fuzz::takes<DataError>([&] {
    const auto read = read_npz(file.path());
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("ringrad_npz_fuzz_" + std::to_string(getpid()));
    fuzz::takes<ValueError>([&] {  // an archive may have a member called ".npy"
      write_npz(path, read, /*deflates=*/true);
      const auto again = read_npz(path);
      fuzz::must(again.size() == read.size(), "names stay");
      for (const auto& [name, x] : read)
        fuzz::must(x.dtype() == again.at(name).dtype() && x.shape() == again.at(name).shape(),
                   "dtype and shape stay");
    });
    std::filesystem::remove(path);
  });
  return 0;
}
