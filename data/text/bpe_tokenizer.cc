#include "ringrad/data/text/bpe_tokenizer.h"

#include <queue>
#include <tuple>

#include "ringrad/data/text/byte_alphabet.h"
#include "ringrad/data/text/word_splitter.h"

namespace ringrad {

BpeTokenizer::Token BpeTokenizer::add_token(std::string bytes) {
  const auto token = static_cast<Token>(bytes_.size());
  token_of_.emplace(bytes, token);
  bytes_.push_back(std::move(bytes));
  return token;
}

void BpeTokenizer::add_merge(Token left, Token right, Token result) {
  merge_of_.emplace(key(left, right), Merge{static_cast<std::int32_t>(merges_.size()), result});
  merges_.emplace_back(left, right);
}

void BpeTokenizer::find_byte_tokens() {
  for (int byte = 0; byte < 256; ++byte)
    byte_tokens_[byte] = token_of_.at(std::string(1, static_cast<char>(byte)));
}

std::optional<std::int64_t> BpeTokenizer::find(std::string_view bytes) const {
  const auto found = token_of_.find(std::string(bytes));
  if (found == token_of_.end()) return {};
  return found->second;
}

// --- Encoding ---

// The word's tokens are a doubly linked list. A queue holds the merges that are possible, the
// earliest learned first, and of one merge the leftmost. An entry is outdated if its tokens have
// meanwhile become part of others. So a word of n bytes takes n log n steps.
void BpeTokenizer::encode_word(std::string_view word, std::vector<std::int64_t>& tokens) const {
  struct Item {
    Token token;
    std::int32_t before, after;  // -1 at the ends; token -1 for an item that was merged
  };
  struct Candidate {
    std::int32_t rank, at;
    Token left, right, result;
    bool operator>(const Candidate& other) const {
      return std::pair(rank, at) > std::pair(other.rank, other.at);
    }
  };
  const auto size = static_cast<std::int32_t>(word.size());
  std::vector<Item> items;
  for (std::int32_t i = 0; i < size; ++i)
    items.push_back({byte_tokens_[static_cast<unsigned char>(word[static_cast<std::size_t>(i)])],
                     i - 1, i + 1 < size ? i + 1 : -1});
  const auto item = [&](std::int32_t i) -> Item& { return items[static_cast<std::size_t>(i)]; };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto consider = [&](std::int32_t at) {
    if (at < 0 || item(at).after < 0) return;
    const Token left = item(at).token, right = item(item(at).after).token;
    const auto merge = merge_of_.find(key(left, right));
    if (merge != merge_of_.end())
      candidates.push({merge->second.rank, at, left, right, merge->second.result});
  };
  for (std::int32_t i = 0; i < size; ++i) consider(i);
  while (!candidates.empty()) {
    const Candidate next = candidates.top();
    candidates.pop();
    Item& left = item(next.at);
    if (left.token != next.left || left.after < 0 || item(left.after).token != next.right) continue;
    Item& right = item(left.after);
    left.token = next.result;
    right.token = -1;
    left.after = right.after;
    if (left.after >= 0) item(left.after).before = next.at;
    consider(left.before);
    consider(next.at);
  }
  for (std::int32_t i = size > 0 ? 0 : -1; i >= 0; i = item(i).after)
    tokens.push_back(item(i).token);
}

std::vector<std::int64_t> BpeTokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> tokens;
  split_words(text, [&](std::string_view word) { encode_word(word, tokens); });
  return tokens;
}

std::string BpeTokenizer::decode(std::span<const std::int64_t> tokens, Where where) const {
  std::string text;
  for (const std::int64_t token : tokens) {
    RINGRAD_CHECK(token >= 0 && token < size(), IndexError, where, "decode: tokens must be in [0, ",
                  size(), "); got ", token);
    text += bytes_[static_cast<std::size_t>(token)];
  }
  return text;
}

// --- Training ---

// Distinct words with their counts, and for each pair of neighbouring tokens its count and the
// words that may contain it. A merge changes only those words.
struct BpeTokenizer::Training {
  struct Word {
    std::vector<Token> tokens;
    std::int64_t count;
  };
  struct Pair {
    std::int64_t count = 0;
    std::vector<std::size_t> words;
  };
  struct Candidate {
    std::int64_t count;
    Token left, right;
    // The most frequent comes first; of equals, that of the oldest tokens.
    bool operator<(const Candidate& other) const {
      return std::tuple(count, other.left, other.right) < std::tuple(other.count, left, right);
    }
  };

  Training(std::string_view text, const Token* byte_tokens) {
    std::unordered_map<std::string_view, std::size_t> place;
    split_words(text, [&](std::string_view word) {
      const auto [found, is_new] = place.try_emplace(word, words.size());
      if (is_new) {
        words.push_back({{}, 0});
        for (const char c : word)
          words.back().tokens.push_back(byte_tokens[static_cast<unsigned char>(c)]);
      }
      ++words[found->second].count;
    });
    for (std::size_t w = 0; w < words.size(); ++w) {
      count_pairs(w, 1);
      for (std::size_t i = 0; i + 1 < words[w].tokens.size(); ++i) note_word(w, i);
    }
    for (const auto& [key, pair] : pairs) push(key);
  }

  std::uint64_t key_at(std::size_t w, std::size_t i) const {
    return BpeTokenizer::key(words[w].tokens[i], words[w].tokens[i + 1]);
  }

  // Adds the pairs of a word, or takes them away.
  void count_pairs(std::size_t w, int sign) {
    for (std::size_t i = 0; i + 1 < words[w].tokens.size(); ++i)
      pairs[key_at(w, i)].count += sign * words[w].count;
  }

  // Notes that word w contains its i-th pair.
  void note_word(std::size_t w, std::size_t i) {
    std::vector<std::size_t>& list = pairs[key_at(w, i)].words;
    if (list.empty() || list.back() != w) list.push_back(w);
  }

  void push(std::uint64_t key) {
    queue.push({pairs[key].count, static_cast<Token>(key >> 32), static_cast<Token>(key)});
  }

  // The best pair whose entry in the queue is up to date, if one occurs twice.
  std::optional<Candidate> best() {
    while (!queue.empty()) {
      const Candidate next = queue.top();
      queue.pop();
      const std::int64_t count = pairs[BpeTokenizer::key(next.left, next.right)].count;
      if (count == next.count && count > 1) return next;
      if (count > 1) queue.push({count, next.left, next.right});
    }
    return {};
  }

  void merge(Token left, Token right, Token result) {
    const std::vector<std::size_t> changed = std::move(pairs[BpeTokenizer::key(left, right)].words);
    for (const std::size_t w : changed) {
      count_pairs(w, -1);
      std::vector<Token>& tokens = words[w].tokens;
      std::vector<Token> merged;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const bool joins = tokens[i] == left && i + 1 < tokens.size() && tokens[i + 1] == right;
        merged.push_back(joins ? result : tokens[i]);
        i += joins ? 1 : 0;
      }
      tokens = std::move(merged);
      count_pairs(w, 1);
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i)
        if (tokens[i] == result || tokens[i + 1] == result) {
          note_word(w, i);
          push(key_at(w, i));
        }
    }
  }

  std::vector<Word> words;
  std::unordered_map<std::uint64_t, Pair> pairs;
  std::priority_queue<Candidate> queue;
};

BpeTokenizer BpeTokenizer::train(std::string_view text, std::int64_t num_tokens, Where where) {
  RINGRAD_CHECK(num_tokens >= 256, ValueError, where,
                "BpeTokenizer: there must be a token for each of 256 bytes; got ", num_tokens,
                " tokens");
  BpeTokenizer result;
  for (const unsigned char byte : byte_order())
    result.add_token(std::string(1, static_cast<char>(byte)));
  result.find_byte_tokens();
  Training training(text, result.byte_tokens_);
  while (result.size() < num_tokens) {
    const auto next = training.best();
    if (!next) break;
    const std::string bytes = result.bytes_[static_cast<std::size_t>(next->left)] +
                              result.bytes_[static_cast<std::size_t>(next->right)];
    // Two pairs may make the same bytes.
    const auto existing = result.token_of_.find(bytes);
    const Token token =
        existing != result.token_of_.end() ? existing->second : result.add_token(bytes);
    result.add_merge(next->left, next->right, token);
    training.merge(next->left, next->right, token);
  }
  return result;
}

}  // namespace ringrad
