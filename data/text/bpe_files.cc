// BpeTokenizer::load and save: GPT-2's vocab.json and merges.txt.

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "ringrad/core/file/atomic_file.h"
#include "ringrad/core/untrusted/json.h"
#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/data/text/bpe_tokenizer.h"
#include "ringrad/data/text/byte_alphabet.h"
#include "ringrad/data/text_file.h"

namespace ringrad {
namespace {

constexpr char kLoad[] = "BpeTokenizer::load";
constexpr std::int64_t kMostBytes = 1 << 28;  // GPT-2's files have 1 MB

template <class... Facts>
[[noreturn]] void fail(const std::filesystem::path& path, Where where, const Facts&... facts) {
  throw DataError(concat(kLoad, ": ", path.string(), ' ', facts...), where);
}

}  // namespace

// {"token": number, ...}. Each number is checked against the count of tokens before it is used.
void BpeTokenizer::read_vocabulary(const std::filesystem::path& path, Where where) {
  nlohmann::json tokens;
  try {
    tokens = parse_untrusted_json(read_text(path, kLoad, kMostBytes, where));
  } catch (const std::invalid_argument& error) {
    fail(path, where, error.what());
  }
  if (!tokens.is_object()) fail(path, where, "must be a JSON object; got a ", tokens.type_name());
  std::vector<std::string> bytes(tokens.size());
  std::vector<bool> taken(tokens.size());
  for (const auto& [name, number] : tokens.items()) {
    const auto token = number.is_number_unsigned() ? number.get<std::uint64_t>() : tokens.size();
    if (token >= tokens.size() || taken[token])
      fail(path, where, "must number its ", tokens.size(), " tokens 0, 1, ...; got ",
           quoted_bytes(number.dump()), " for ", quoted_bytes(name));
    const auto decoded = characters_to_bytes(name);
    if (!decoded)
      fail(path, where, "must have tokens of characters that stand for bytes; got ",
           quoted_bytes(name));
    taken[token] = true;
    bytes[token] = *decoded;
  }
  for (std::string& token : bytes) add_token(std::move(token));
  for (int byte = 0; byte < 256; ++byte)
    if (!find(std::string(1, static_cast<char>(byte))))
      fail(path, where, "must have a token for every byte; got none for ", byte);
  find_byte_tokens();
}

// "#version: ..." if it is there, then a line "left right" per merge.
void BpeTokenizer::read_merges(const std::filesystem::path& path, Where where) {
  const std::string text = read_text(path, kLoad, kMostBytes, where);
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const std::size_t space = line.find(' ');
    const auto token_of = [&](std::string_view characters) {
      const auto bytes = characters_to_bytes(characters);
      return bytes ? find(*bytes) : std::nullopt;
    };
    const auto left = token_of(line.substr(0, space));
    const auto right =
        space == std::string_view::npos ? std::nullopt : token_of(line.substr(space + 1));
    const auto joined = left && right ? find(bytes_[static_cast<std::size_t>(*left)] +
                                             bytes_[static_cast<std::size_t>(*right)])
                                      : std::nullopt;
    if (!joined)
      fail(path, where, "must have two tokens per line that together are one; got ",
           quoted_bytes(line), " in line ", number);
    const auto token = [](const auto& found) { return static_cast<Token>(*found); };
    if (merge_of_.contains(key(token(left), token(right))))
      fail(path, where, "must have each merge once; got ", quoted_bytes(line), " again in line ",
           number);
    add_merge(token(left), token(right), token(joined));
  }
}

BpeTokenizer BpeTokenizer::load(const std::filesystem::path& vocabulary,
                                const std::filesystem::path& merges, Where where) {
  BpeTokenizer result;
  result.read_vocabulary(vocabulary, where);
  result.read_merges(merges, where);
  return result;
}

void BpeTokenizer::save(const std::filesystem::path& vocabulary,
                        const std::filesystem::path& merges, Where where) const {
  const AtomicFileOptions options{.operation = "BpeTokenizer::save", .has_many_writers = true};
  AtomicFile vocabulary_file(vocabulary, options, where), merges_file(merges, options, where);
  nlohmann::ordered_json tokens;
  for (std::size_t token = 0; token < bytes_.size(); ++token)
    tokens[bytes_to_characters(bytes_[token])] = token;
  vocabulary_file.write(tokens.dump());
  std::string lines = "#version: 0.2\n";
  for (const auto& [left, right] : merges_)
    lines += bytes_to_characters(bytes_[static_cast<std::size_t>(left)]) + ' ' +
             bytes_to_characters(bytes_[static_cast<std::size_t>(right)]) + '\n';
  merges_file.write(lines);
  vocabulary_file.commit();
  merges_file.commit();
}

}  // namespace ringrad
