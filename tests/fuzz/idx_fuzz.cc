// IDX files, plain and in gzip.

#include "ringrad/data/idx.h"
#include "ringrad/tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringrad;
  static fuzz::MemoryFile file;
  file.hold(fuzz::text_of(data, size));
  fuzz::takes<DataError>([&] { read_idx(file.path()); });
  return 0;
}
