#include "ringrad/data/text/word_splitter.h"

#include <algorithm>
#include <array>

#include "ringrad/data/text/unicode_class.h"

namespace ringrad {
namespace {

constexpr std::array<std::string_view, 7> kContractions = {"'s", "'t",  "'re", "'ve",
                                                           "'m", "'ll", "'d"};

// The end of the characters of one class that begin at `at`.
std::size_t end_of_run(std::string_view text, std::size_t at, UnicodeClass kind) {
  while (at < text.size()) {
    const auto [character, num_bytes] = decode_utf8(text, at);
    if (unicode_class(character) != kind) break;
    at += num_bytes;
  }
  return at;
}

// The end of a run of spaces, and where its last space begins.
struct Spaces {
  std::size_t last, end;
};

Spaces spaces_at(std::string_view text, std::size_t at) {
  Spaces run{at, at};
  while (run.end < text.size()) {
    const auto [character, num_bytes] = decode_utf8(text, run.end);
    if (unicode_class(character) != UnicodeClass::space) break;
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
    if (kind != UnicodeClass::space) return end_of_run(text, first, kind);
  }
  const Spaces run = spaces_at(text, begin);
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
