// Frames of the store: a header, requests and answers, as the server and a client read them after
// the seal is removed.

#include "ringrad/parallel/comm/store/store_protocol.h"
#include "ringrad/tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringrad;
  const std::string_view bytes = fuzz::text_of(data, size);
  if (bytes.size() >= kFrameHeaderBytes) {
    const std::string_view header = bytes.substr(0, kFrameHeaderBytes);
    fuzz::must(frame_header(frame_size(header)) == header, "a header says what it said");
  }
  if (const auto request = decode_request(bytes)) {
    fuzz::must(is_store_name(request->name) && request->value.size() <= kMostValueBytes,
               "a request is within the limits");
    fuzz::must(encode(*request) == bytes, "a request comes back unchanged");
  }
  if (const auto answer = decode_answer(bytes)) {
    fuzz::must(encode(*answer) == bytes, "an answer comes back unchanged");
    if (const auto number = parse_number(answer->text))
      fuzz::must(parse_number(std::to_string(*number)) == *number, "a number comes back");
  }
  return 0;
}
