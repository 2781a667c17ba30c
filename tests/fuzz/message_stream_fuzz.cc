// Messages between the launcher and an agent, as a pipe delivers them. The first byte sets the size
// of the pieces.

#include <fcntl.h>

#include "ringrad/parallel/comm/job/message_stream.h"
#include "ringrad/tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringrad;
  if (size == 0) return 0;
  const std::size_t piece = data[0] + std::size_t{1};
  const std::string_view bytes = fuzz::text_of(data + 1, size - 1);
  int ends[2];
  fuzz::must(pipe2(ends, O_CLOEXEC) == 0, "pipe2");
  const Descriptor in(ends[1]);
  MessageStream stream{Descriptor(ends[0]), Descriptor(), kLongestFromAgent};
  std::size_t num_taken = 0;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const std::string_view part = bytes.substr(at, piece);
    fuzz::must(write(in.number(), part.data(), part.size()) == static_cast<ssize_t>(part.size()),
               "write");
    stream.read_some();
    const auto take = [&] {
      while (const auto message = stream.next(Where::current())) {
        num_taken += message->text.size() + 1;
        const auto of_rank = parse_rank_message(message->text);
        fuzz::must(!of_rank || (of_rank->rank >= 0 && of_rank->number >= 0), "numbers from 0");
      }
    };
    if (!fuzz::takes<Error>(take)) break;
  }
  fuzz::must(num_taken <= bytes.size(), "messages are made of what has been received");
  return 0;
}
