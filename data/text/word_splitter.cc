#include "ringrad/data/text/word_splitter.h"

#include <array>

#include "ringrad/data/text/unicode_class.h"

namespace ringrad {
namespace {

constexpr std::array<std::string_view, 7> kContractions = {"'s", "'t",  "'re", "'ve",
                                                           "'m", "'ll", "'d"};

// Characters of one class: where the last one begins, and their end.
struct Run {
  std::size_t last, end;
};

Run run_at(std::string_view text, std::size_t at, UnicodeClass kind) {
  Run run{at, at};
  while (run.end < text.size()) {
    const auto [character, num_bytes] = decode_utf8(text, run.end);
    if (unicode_class(character) != kind) break;
    run.last = run.end;
    run.end += num_bytes;
  }
  return run;
}

std::size_t end_of_word(std::string_view text, std::size_t begin) {
  for (const std::string_view contraction : kContractions)
    if (text.substr(begin).starts_with(contraction)) return begin + contraction.size();
  const std::size_t first = begin + (text[begin] == ' ' ? 1 : 0);
  if (first < text.size()) {
    const UnicodeClass kind = unicode_class(decode_utf8(text, first).character);
    if (kind != UnicodeClass::space) return run_at(text, first, kind).end;
  }
  const Run run = run_at(text, begin, UnicodeClass::space);
  return run.end < text.size() && run.last > begin ? run.last : run.end;
}

}  // namespace

void split_words(std::string_view text, const std::function<void(std::string_view part)>& word) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = end_of_word(text, begin);
    word(text.substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace ringrad
