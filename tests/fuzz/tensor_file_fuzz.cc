// Tensor files. A checksum detects accidents, but a forger of a file also forges its checksum. Each
// input is therefore read twice: as it is, and with a matching checksum.

#include "ringrad/nn/tensor_file.h"
#include "ringrad/tests/fuzz/input.h"

namespace {

using namespace ringrad;

void read(std::string_view bytes) {
  static fuzz::MemoryFile file;
  file.hold(bytes);
  fuzz::takes<DataError>([&] { nn::read_tensors(file.path()); });
  fuzz::takes<DataError>([&] { nn::read_safetensors(file.path()); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::text_of(data, size);
  read(bytes);
  read(fuzz::with_checksum(bytes, R"(........{"__metadata__":{"crc32":")"));
  return 0;
}
