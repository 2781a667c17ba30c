// The tokenizer against Hugging Face's (bpe.json), round trips, and files that are damaged.

#include "ringrad/data/text/bpe_tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "ringrad/data/text/word_splitter.h"
#include "ringrad/data/text_file.h"
#include "ringrad/tests/core/file/file_rules.h"
#include "ringrad/tests/nn/checkpoint/folder.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;
using testing::Folder;

const nlohmann::json& golden() {
  static const auto document = nlohmann::json::parse(read_text("tests/data/text/bpe.json"));
  return document;
}

BpeTokenizer trained() {
  return BpeTokenizer::train(golden().at("training").get<std::string>(), 400);
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> result;
  split_words(text, [&](std::string_view word) { result.emplace_back(word); });
  return result;
}

TEST(BpeTokenizerTest, LearnsTheMergesThatHuggingFaceLearns) {
  const Folder folder;
  const BpeTokenizer tokenizer = trained();
  tokenizer.save(folder / "vocab.json", folder / "merges.txt");
  EXPECT_EQ(nlohmann::json::parse(read_text(folder / "vocab.json")), golden().at("vocabulary"));
  std::string merges = "#version: 0.2\n";
  for (const auto& merge : golden().at("merges")) merges += merge.get<std::string>() + '\n';
  EXPECT_EQ(read_text(folder / "merges.txt"), merges);
}

TEST(BpeTokenizerTest, FindsTheTokensThatHuggingFaceFinds) {
  const Folder folder;
  trained().save(folder / "vocab.json", folder / "merges.txt");
  for (const BpeTokenizer& tokenizer :
       {trained(), BpeTokenizer::load(folder / "vocab.json", folder / "merges.txt")})
    for (const auto& example : golden().at("cases")) {
      const auto text = example.at("text").get<std::string>();
      SCOPED_TRACE(text);
      EXPECT_EQ(tokenizer.encode(text), example.at("tokens").get<std::vector<std::int64_t>>());
    }
}

TEST(BpeTokenizerTest, EveryTextComesBack) {
  const BpeTokenizer tokenizer = trained();
  testing::Random random(1);
  for (int i = 0; i < 300; ++i) {
    // Words of the training text, all bytes, and halves of characters.
    std::string text = "the ranks \xE4\xBD\xA0\xE5\xA5\xBD \n\t'll 12";
    for (int k = 0; k < 20; ++k)
      text[static_cast<std::size_t>(
          random.integer(0, static_cast<std::int64_t>(text.size()) - 1))] =
          static_cast<char>(random.integer(0, 255));
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    std::string joined;
    for (const std::string& word : words(text)) joined += word;
    EXPECT_EQ(joined, text);
  }
}

// Quadratic algorithms would take minutes.
TEST(BpeTokenizerTest, LongWordsTakeNoLongerThanManyShortOnes) {
  const BpeTokenizer tokenizer = BpeTokenizer::train(std::string(64, 'a'), 262);
  EXPECT_EQ(tokenizer.size(), 261);  // aa, aaaa, ... of 32, which occurs twice
  const auto tokens = tokenizer.encode(std::string(1 << 20, 'a'));
  EXPECT_EQ(tokens.size(), std::size_t{1 << 20} / 32);
}

TEST(BpeTokenizerTest, TrainingStopsWhenNoPairOccursTwice) {
  EXPECT_EQ(BpeTokenizer::train("", 300).size(), 256);
  EXPECT_EQ(BpeTokenizer::train("abab", 300).size(), 257);
  expect_throws<ValueError>([] { BpeTokenizer::train("a", 255); }, "got 255");
}

TEST(BpeTokenizerTest, SpecialTokensAreFoundByName) {
  const Folder folder;
  const BpeTokenizer plain = BpeTokenizer::train("", 256);
  plain.save(folder / "vocab.json", folder / "merges.txt");
  auto vocabulary = nlohmann::json::parse(read_text(folder / "vocab.json"));
  vocabulary["<|endoftext|>"] = 256;
  write(folder / "vocab.json", vocabulary.dump());
  const auto tokenizer = BpeTokenizer::load(folder / "vocab.json", folder / "merges.txt");
  EXPECT_EQ(tokenizer.find("<|endoftext|>"), 256);
  EXPECT_EQ(tokenizer.encode("<|endoftext|>").size(), 13u);
  EXPECT_EQ(tokenizer.decode(std::vector<std::int64_t>{256}), "<|endoftext|>");
  EXPECT_FALSE(tokenizer.find("<|pad|>"));
  expect_throws<IndexError>([&] { tokenizer.decode(std::vector<std::int64_t>{257}); }, "got 257");
}

TEST(BpeTokenizerTest, RefusesDamagedFiles) {
  const Folder folder;
  trained().save(folder / "vocab.json", folder / "merges.txt");
  const auto vocabulary = nlohmann::json::parse(read_text(folder / "vocab.json"));
  const auto load = [&](const std::string& tokens, const std::string& merges) {
    write(folder / "v", tokens);
    write(folder / "m", merges);
    return [&] { BpeTokenizer::load(folder / "v", folder / "m"); };
  };
  const auto with = [&](const char* name, const nlohmann::json& number) {
    auto changed = vocabulary;
    changed[name] = number;
    return changed.dump();
  };
  expect_throws<DataError>(load("[1]", ""), "must be a JSON object");
  expect_throws<DataError>(load("{", ""), "/v must");
  expect_throws<DataError>(load(with("a", 7000), ""), "must number its 400 tokens");
  expect_throws<DataError>(load(with("a", -1), ""), "got \"-1\" for \"a\"");
  expect_throws<DataError>(load(with("a", 1), ""), "must number");
  expect_throws<DataError>(load(with("a", "b"), ""), "must number");
  expect_throws<DataError>(load(with("\u4f60", 400), ""), "characters that stand for bytes");
  expect_throws<DataError>(load("{\"a\": 0}", ""), "a token for every byte; got none for 0");
  const std::string good = vocabulary.dump();
  const auto merge = golden().at("merges").at(0).get<std::string>() + '\n';
  expect_throws<DataError>(load(good, merge + "th\n"), "got \"th\" in line 2");
  expect_throws<DataError>(load(good, "q q\n"), "must have two tokens per line");
  expect_throws<DataError>(load(good, merge + merge), "each merge once");
  expect_throws<DataError>([&] { BpeTokenizer::load(folder / "none", folder / "m"); }, "none");
  expect_throws<DataError>([&] { trained().save(folder / "no" / "v", folder / "m"); }, "writable");
}

TEST(BpeTokenizerTest, FilesAreWrittenAsAllFiles) {
  const BpeTokenizer tokenizer = trained();
  testing::expect_file_rules([&](const auto& path) { tokenizer.save(path, "/dev/null"); });
  testing::expect_file_rules([&](const auto& path) { tokenizer.save("/dev/null", path); });
}

}  // namespace
}  // namespace ringrad
