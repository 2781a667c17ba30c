#include "ringrad/data/text_file.h"

#include <span>

#include "ringrad/data/file_reader.h"

namespace ringrad {

std::string read_text(const std::filesystem::path& path, const std::string& operation,
                      std::int64_t most_bytes, Where where) {
  constexpr std::size_t kPiece = 1 << 20;
  FileReader file(operation, path, where);
  std::string text;
  for (;;) {
    const std::size_t size = text.size();
    text.resize(size + kPiece);
    const std::size_t got = file.read(std::as_writable_bytes(std::span(text).subspan(size)));
    text.resize(size + got);
    if (std::ssize(text) > most_bytes)
      file.fail(concat("must hold at most ", most_bytes, " bytes"), "more");
    if (got < kPiece) return text;
  }
}

}  // namespace ringrad
