// Tensor files. A checksum detects accidents, but a forger of a file also forges its checksum. Each
// input is therefore read twice: as it is, and with a matching checksum.

#include "ringrad/nn/checkpoint/tensor_file.h"
#include "ringrad/tests/fuzz/input.h"

namespace {

using namespace ringrad;

void read(std::string_view bytes) {
  static fuzz::MemoryFile file;
  file.hold(bytes);
  fuzz::takes<DataError>([&] { nn::read_tensors(file.path()); });
  std::size_t num_read = 0, num_mapped = 0;
  const bool is_read =
      fuzz::takes<DataError>([&] { num_read = nn::read_safetensors(file.path()).size(); });
  const bool is_mapped =
      fuzz::takes<DataError>([&] { num_mapped = nn::map_safetensors(file.path()).size(); });
  fuzz::must(is_read == is_mapped && num_read == num_mapped, "mapping changes no answer");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::text_of(data, size);
  read(bytes);
  read(fuzz::with_checksum(bytes, R"(........{"__metadata__":{"crc32":")"));
  return 0;
}
