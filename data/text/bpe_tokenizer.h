// BpeTokenizer: text as numbers, by byte pairs that were merged.
//
//     l o w e r       the bytes of a word, each a token of its own
//     lo w e r        merge 1: l o, the most frequent pair of the training text
//     lo w er         merge 2: e r
//
// Encoding applies the merges to each word (word_splitter.h) in the order in which they were
// learned. Every text has tokens, since every byte is one, and decoding gives the same bytes back.
//
//     const BpeTokenizer tokenizer = BpeTokenizer::load("vocab.json", "merges.txt");    GPT-2's
//     tokenizer.decode(tokenizer.encode("Hello"))                                       "Hello"
//
// Paper: Sennrich, Haddow, Birch 2015, arXiv:1508.07909; Radford et al. 2019, "Language Models are
//        Unsupervised Multitask Learners", section 2.2 (bytes)

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ringrad/core/base/error.h"

namespace ringrad {

class BpeTokenizer {
 public:
  /// Learns merges until there are `num_tokens` tokens, or no pair occurs twice. Among equally
  /// frequent pairs, it merges the one whose tokens are older. Tokens 0 to 255 are the bytes, in
  /// GPT-2's order.
  /// Throws ValueError unless num_tokens >= 256.
  static BpeTokenizer train(std::string_view text, std::int64_t num_tokens,
                            Where where = Where::current());

  /// Reads GPT-2's two files. Nothing in them is trusted.
  ///
  /// Throws:  DataError, naming the file, unless the first is a JSON object that gives the tokens
  ///          the numbers 0, 1, ..., all bytes among them, and the second has two tokens per line
  ///          that together are a token
  static BpeTokenizer load(const std::filesystem::path& vocabulary,
                           const std::filesystem::path& merges, Where where = Where::current());

  /// Writes them. Throws DataError if a file cannot be written.
  void save(const std::filesystem::path& vocabulary, const std::filesystem::path& merges,
            Where where = Where::current()) const;

  /// The tokens of a text. Names of special tokens, such as <|endoftext|>, are text like any other.
  /// Several threads may call this at once.
  std::vector<std::int64_t> encode(std::string_view text) const;

  /// The bytes of the tokens. Throws IndexError for a number outside [0, size()).
  std::string decode(std::span<const std::int64_t> tokens, Where where = Where::current()) const;

  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }

  /// The token of exactly these bytes, such as "<|endoftext|>", if there is one.
  std::optional<std::int64_t> find(std::string_view bytes) const;

 private:
  using Token = std::int32_t;
  struct Merge {
    std::int32_t rank;  // the smaller, the earlier
    Token result;
  };
  struct Training;

  BpeTokenizer() = default;
  static std::uint64_t key(Token left, Token right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  Token add_token(std::string bytes);
  void add_merge(Token left, Token right, Token result);
  void find_byte_tokens();
  void encode_word(std::string_view word, std::vector<std::int64_t>& tokens) const;
  void read_vocabulary(const std::filesystem::path& path, Where where);
  void read_merges(const std::filesystem::path& path, Where where);

  std::vector<std::string> bytes_;  // of each token
  std::unordered_map<std::string, Token> token_of_;
  Token byte_tokens_[256];
  std::vector<std::pair<Token, Token>> merges_;  // in order
  std::unordered_map<std::uint64_t, Merge> merge_of_;
};

}  // namespace ringrad
