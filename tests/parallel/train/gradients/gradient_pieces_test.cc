// Which rank counts which piece.

#include "ringrad/parallel/train/gradients/gradient_pieces.h"

#include <gtest/gtest.h>

#include <vector>

#include "ringrad/tests/foreign_numbers.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

GradientPiece piece(const char* name, std::int64_t numel, TensorSlice slice, std::int64_t begin,
                    std::int64_t end) {
  return {name, numel, slice, begin, end};
}

TEST(GradientPiecesTest, EachElementCountsOnce) {
  // The picture of gradient_pieces.h.
  const GradientPiece bias = piece("bias", 6, {1, 0, 6}, 0, 6);
  const std::vector<std::vector<GradientPiece>> ranks{{piece("w", 24, {1, 0, 12}, 0, 8), bias},
                                                      {piece("w", 24, {1, 0, 12}, 8, 12), bias},
                                                      {piece("w", 24, {1, 12, 24}, 0, 8), bias},
                                                      {piece("w", 24, {1, 12, 24}, 8, 12), bias}};
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(counted_pieces(ranks, rank, Where::current()), (std::vector<bool>{true, rank == 0}));
  // Replicas of both column slices; the third rank has copies only.
  const std::vector<std::vector<GradientPiece>> columns{{piece("w", 24, {4, 0, 3}, 0, 12)},
                                                        {piece("w", 24, {4, 3, 6}, 0, 12)},
                                                        {piece("w", 24, {4, 0, 3}, 0, 12)},
                                                        {}};
  EXPECT_EQ(counted_pieces(columns, 1, Where::current()), (std::vector<bool>{true}));
  EXPECT_EQ(counted_pieces(columns, 2, Where::current()), (std::vector<bool>{false}));
  EXPECT_TRUE(counted_pieces(columns, 3, Where::current()).empty());
}

TEST(GradientPiecesTest, RefusesGapsAndOverlaps) {
  const auto expect_refused = [](const GradientPiece& a, const GradientPiece& b) {
    expect_throws<ValueError>([&] { counted_pieces({{a}, {b}}, 0, Where::current()); }, "for w of");
  };
  expect_refused(piece("w", 24, {1, 0, 12}, 0, 12), piece("w", 24, {1, 0, 24}, 0, 24));
  expect_refused(piece("w", 24, {1, 0, 12}, 0, 12), piece("w", 24, {1, 0, 12}, 0, 12));
  expect_refused(piece("w", 24, {1, 0, 24}, 0, 12), piece("w", 24, {1, 0, 24}, 13, 24));
  expect_refused(piece("w", 24, {1, 0, 24}, 0, 24), piece("w", 24, {1, 0, 24}, 0, 12));
  expect_refused(piece("w", 24, {4, 0, 3}, 0, 12), piece("w", 24, {1, 12, 24}, 0, 12));
  expect_throws<ValueError>(
      [] {
        counted_pieces({{piece("w", 24, {1, 0, 24}, 0, 24)}, {piece("w", 6, {1, 0, 6}, 0, 6)}}, 0,
                       Where::current());
      },
      "one size on all ranks; got 24 and 6 elements of w");
}

TEST(GradientPiecesTest, TextKeepsPieces) {
  std::vector<GradientPiece> pieces{piece("a b.weight", 24, {4, 0, 3}, 1, 12),
                                    piece("x", 5, {1, 0, 5}, 0, 5)};
  pieces[1].is_repeated = true;
  const auto again = parse_gradient_pieces(text_of(pieces));
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].name, "a b.weight");
  EXPECT_EQ(again[0].slice, pieces[0].slice);
  EXPECT_EQ(again[0].begin, 1);
  EXPECT_FALSE(again[0].is_repeated);
  EXPECT_TRUE(again[1].is_repeated);
  EXPECT_EQ(again[1].end, 5);
}

TEST(GradientPiecesTest, RanksReadThemInEveryLocale) {
  const testing::ForeignNumbers guard;
  const std::string text = text_of({piece("a name", 2468, {1, 0, 1234}, 0, 1234)});
  EXPECT_EQ(text, "2468 1 0 1234 0 1234 0 a name\n");
  EXPECT_EQ(text_of(parse_gradient_pieces(text)), text);
}

}  // namespace
}  // namespace ringrad
