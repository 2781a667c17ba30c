// Splits a text into words, as GPT-2 does before it looks for tokens: no token crosses the end of a
// word.
//
//     "It's 12 o'clock,  now" --> It | 's |  12 |  o | 'clock | , |  |  now
//
// A word is one of these: a run of letters, of numbers, or of other characters that are no spaces,
// each with the space before it if there is one; an English contraction ('s 't 're 've 'm 'll 'd);
// or a run of spaces. If a word follows, the run of spaces leaves its last one to that word.

#pragma once

#include <functional>
#include <string_view>

namespace ringrad {

/// Calls word(part) for each word, in order; together they are the text. Bytes that are not UTF-8
/// count as other characters.
void split_words(std::string_view text, const std::function<void(std::string_view part)>& word);

}  // namespace ringrad
