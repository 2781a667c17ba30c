#include "ringrad/parallel/train/checkpoint/checkpoint_index.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>

#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;
using testing::Random;

CheckpointIndex some_index() {
  CheckpointIndex index;
  index.generation = 1'767'225'600'000'000;
  index.save = "6b5fc1";
  index.files = {{"00001767225600000000.6b5fc1.0.safetensors", 512, "89abcdef"},
                 {"00001767225600000000.6b5fc1.1.safetensors", 256, "01234567"}};
  index.tensors["weight"] = {DType::float32, {4, 6}, Spread::sharded, 4, {{0, 0, 3}, {1, 3, 6}}};
  index.tensors["bias \xc3\xa4"] = {DType::float64, {}, Spread::replicated, 1, {{0, 0, 1}}};
  index.tensors["none"] = {DType::bool_, {0, 3}, Spread::owned, 1, {{1, 0, 0}}};
  return index;
}

// The text with a recomputed checksum, so that its other faults are seen.
std::string with_checksum(std::string text) {
  constexpr std::size_t kAt = 10;  // {"crc32":"
  if (text.size() < kAt + 8) return text;
  text.replace(kAt, 8, "00000000");
  std::array<char, 9> digits;
  std::snprintf(digits.data(), digits.size(), "%08lx",
                crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
  return text.replace(kAt, 8, digits.data());
}

TEST(CheckpointIndexTest, WhatIsWrittenIsRead) {
  const std::string text = some_index().text();
  const CheckpointIndex index = parse_checkpoint_index(text);
  EXPECT_EQ(index.text(), text);
  EXPECT_EQ(index.tensors.at("weight").pieces[1].begin, 3);
  EXPECT_EQ(index.files[1].num_bytes, 256u);
}

TEST(CheckpointIndexTest, EveryTruncationAndFlippedBitIsRefused) {
  const std::string text = some_index().text();
  for (std::size_t i = 0; i < text.size(); ++i) {
    EXPECT_THROW(parse_checkpoint_index(text.substr(0, i)), DataError) << i;
    std::string flipped = text;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << i % 8));
    EXPECT_THROW(parse_checkpoint_index(flipped), DataError) << i;
  }
}

TEST(CheckpointIndexTest, WhatMakesNoSenseIsRefused) {
  const auto refuses = [](const std::string& old_part, const std::string& new_part,
                          std::string_view message) {
    SCOPED_TRACE(new_part.substr(0, 60));
    std::string text = some_index().text();
    const std::size_t at = text.find(old_part);
    ASSERT_NE(at, text.npos);
    text = with_checksum(text.replace(at, old_part.size(), new_part));
    expect_throws<DataError>([&] { parse_checkpoint_index(text); }, message);
  };
  refuses("[0,0,3]", "[0,0,2]", "cover the tensor once");
  refuses("[0,0,3]", "[0,0,4]", "cover the tensor once");
  refuses("[0,0,3]", "[2,0,3]", "a number within its bounds in \"a piece's file\"");
  refuses("[0,0,3]", "[-1,0,3]", "a whole number");
  refuses("[0,0,3]", "[0,0,3,1]", "pieces of three numbers");
  refuses("[0,0,3],[1,3,6]", "", "cover the tensor once");
  refuses("\"rows\":4", "\"rows\":5", "rows that divide");
  refuses("\"rows\":4", "\"rows\":0", "within its bounds");
  refuses("[4,6]", "[4611686018427387904,6]", "within its bounds");
  refuses("[4,6]", "[1073741824,1073741824]", "a shape of fewer elements");
  refuses("[4,6]", "[1,1,1,1,1,1,1,1,1]", "a shape");
  refuses("\"F32\"", "\"F31\"", "a dtype");
  refuses("\"sharded\"", "\"shared\"", "a spread");
  refuses("\"version\":1", "\"version\":2", "version 1");
  refuses("ringrad", "another", "this format");
  refuses("\"save\":", "\"evas\":", "a member in \"save\"");
  refuses("000.6b5fc1.0.safe", "000/../../safe", "files of this folder");
  refuses("\"00001767", "\".0001767", "files of this folder");
  refuses("1767225600000000,", "9223372036854775807,", "within its bounds in \"generation\"");
  refuses("\"none\"", "\"weight\"", "must have each name once");
  refuses("\"weight\":{", "\"number\":7,\"weight\":{", "an object");
  refuses("\"weight\":{", "\"deep\":" + std::string(100'000, '['), "nested at most 5 deep");
  EXPECT_THROW(parse_checkpoint_index(""), DataError);
}

TEST(CheckpointIndexTest, RandomChangesAreReadOrRefused) {
  Random random(5);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = some_index().text();
    for (auto left = random.integer(1, 4); left > 0; --left) {
      const auto at = static_cast<std::size_t>(random.integer(18, std::ssize(text)));
      if (random.chance(0.7))
        text[at] = "0189[]{}\",:-.eaF\\\xff"[random.integer(0, 18)];
      else
        text.insert(at, text.substr(static_cast<std::size_t>(random.integer(0, 300)), 20));
    }
    try {
      const CheckpointIndex index = parse_checkpoint_index(with_checksum(text));
      EXPECT_EQ(parse_checkpoint_index(index.text()).text(), index.text());
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1500);
}

// The elements of a slice, by their places in the whole.
std::vector<std::int32_t> elements_of(const TensorSlice& slice, std::int64_t numel) {
  std::vector<std::int32_t> places;
  for (std::int64_t row = 0; row < slice.rows; ++row)
    for (std::int64_t column = slice.begin; column < slice.end; ++column)
      places.push_back(static_cast<std::int32_t>(row * (numel / slice.rows) + column));
  return places;
}

TEST(TensorSliceTest, CopiesWhatTwoSlicesShareAndNothingElse) {
  constexpr std::int64_t kNumel = 24;
  std::vector<TensorSlice> slices;
  for (const std::int64_t rows : {1, 2, 3, 4, 6, 8, 12, 24})
    for (std::int64_t begin = 0; begin <= kNumel / rows; ++begin)
      for (std::int64_t end = begin; end <= kNumel / rows; ++end)
        slices.push_back({rows, begin, end});
  for (const TensorSlice& to : slices)
    for (const TensorSlice& from : slices) {
      const std::vector<std::int32_t> wanted = elements_of(to, kNumel),
                                      given = elements_of(from, kNumel);
      std::vector<std::int32_t> got(wanted.size(), -1), expected = wanted;
      for (std::int32_t& element : expected)
        if (std::find(given.begin(), given.end(), element) == given.end()) element = -1;
      copy_common(std::as_writable_bytes(std::span(got)), to, std::as_bytes(std::span(given)), from,
                  kNumel, sizeof(std::int32_t));
      ASSERT_EQ(got, expected) << to.rows << ' ' << to.begin << ' ' << to.end << ", " << from.rows
                               << ' ' << from.begin << ' ' << from.end;
    }
}

TEST(TensorSliceTest, AxesAreRowsAndColumns) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(slice_along(shape, 0, 1, 2), (TensorSlice{1, 12, 24}));
  EXPECT_EQ(slice_along(shape, 1, 0, 1), (TensorSlice{2, 0, 4}));
  EXPECT_EQ(slice_along(shape, 2, 1, 3), (TensorSlice{6, 1, 3}));
  EXPECT_EQ(slice_along({0, 4}, 1, 0, 2), (TensorSlice{1, 0, 0}));
}

TEST(MergePiecesTest, WhatDoesNotFitTogetherIsRefusedByName) {
  const auto where = Where::current();
  const PieceFacts whole{"x", DType::float32, {8}, {1, 0, 8}, Spread::replicated, 7};
  const auto part = [](std::int64_t begin, std::int64_t end) {
    return PieceFacts{"x", DType::float32, {8}, {1, begin, end}, Spread::sharded, 7};
  };
  const auto refuses = [&](const std::vector<std::vector<PieceFacts>>& ranks,
                           std::string_view message) {
    expect_throws<ValueError>([&] { merge_pieces(ranks, where); }, message);
  };
  EXPECT_EQ(merge_pieces({{whole}, {whole}}, where).at("x").pieces.size(), 1u);
  EXPECT_EQ(merge_pieces({{part(4, 8)}, {part(0, 4)}, {part(0, 4)}}, where).at("x").pieces[0].file,
            1);
  PieceFacts other = whole;
  other.crc = 8;
  refuses({{whole}, {whole}, {other}}, "\"x\" must have equal copies");
  refuses({{whole, whole}, {whole}}, "must be on a rank's list once");
  refuses({{whole}, {}}, "\"x\" must be on all ranks; it is only on; got rank 0");
  refuses({{part(0, 4)}, {part(5, 8)}}, "gaps or overlap on; got ranks 0, 1");
  refuses({{part(0, 5)}, {part(4, 8)}}, "gaps or overlap");
  other = whole;
  other.dtype = DType::float64;
  refuses({{whole}, {other}}, "one dtype, shape and way to be spread");
  refuses({{whole}, {part(0, 8)}}, "one dtype, shape and way to be spread");
}

TEST(PieceFactsTest, TravelAsText) {
  const std::vector<PieceFacts> facts{
      {"x.\"y\"\n", DType::bool_, {2, 3}, {2, 1, 3}, Spread::per_rank, 0xffffffff}};
  const std::vector<PieceFacts> read = parse_pieces(text_of(facts));
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(text_of(read), text_of(facts));
  EXPECT_EQ(read[0].name, facts[0].name);
  EXPECT_EQ(read[0].slice, facts[0].slice);
}

}  // namespace
}  // namespace ringrad
