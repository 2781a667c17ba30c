// Indexes of checkpoints that are folders: as they are, and with a matching checksum, because a
// forger of an index also forges its checksum.

#include "ringrad/parallel/train/checkpoint/checkpoint_index.h"
#include "ringrad/tests/fuzz/input.h"

namespace {

using namespace ringrad;

void read(std::string_view text) {
  CheckpointIndex index;
  if (!fuzz::takes<DataError>([&] { index = parse_checkpoint_index(text); })) return;
  const std::string written = index.text();
  fuzz::must(parse_checkpoint_index(written).text() == written, "comes back as it was");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  read(text);
  read(fuzz::with_checksum(text, R"({"crc32":")"));
  return 0;
}
