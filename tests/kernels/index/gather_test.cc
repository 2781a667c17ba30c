#include "ringrad/kernels/index/gather.h"

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/copy/fill.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/reference/indexing.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_same_bits;
using ringrad::testing::expect_throws;
using ringrad::testing::Random;
using ringrad::testing::Team;

constexpr DType kFloats[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};

Tensor int64_rows(const Values& rows) { return tensor(rows, DType::int64); }

// The reference indexes the middle one of three axes.
Shape shape_of(const reference::Extents& e) { return {e.outer, e.axis, e.inner}; }

// x with the middle axis at `axis`, and back.
Tensor moved(const Tensor& x, int axis) { return view::transpose(x, 1, axis); }

// What one seed makes of a test: a team of one or two threads, extents, and others that these
// cover but for the middle axis, which is free.
struct Drawn {
  explicit Drawn(std::uint64_t seed)
      : random(seed), team(1 + static_cast<int>(seed % 2)), largest(seed % 8 == 0 ? 40 : 6) {}

  reference::Extents extents() {
    return {random.integer(1, largest), random.integer(1, largest), random.integer(1, largest)};
  }
  reference::Extents covered_by(const reference::Extents& all) {
    return {random.integer(0, all.outer + 1), random.integer(1, largest),
            random.integer(1, all.inner + 1)};
  }
  int axis() { return static_cast<int>(random.integer(0, 3)); }

  Random random;
  const Team team;
  const std::int64_t largest;
};

TEST(GatherTest, PicksOneElementPerRow) {
  const Tensor x = tensor({{1., 2., 3.}, {4., 5., 6.}});
  expect_close(gather(x, 1, int64_rows({{2}, {0}})), {3, 4});
  expect_close(gather(x, 0, int64_rows({{1, 0, 1}})), tensor({{4., 2., 6.}}));
}

TEST(GatherTest, AgreesWithReference) {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    Drawn drawn(seed);
    Random& random = drawn.random;
    const reference::Extents from = drawn.extents(), to = drawn.covered_by(from);
    const int axis = drawn.axis();
    const DType dtype = seed % 5 == 4 ? DType::int32 : kFloats[seed % 4];
    const Tensor x = random.tensor(shape_of(from), dtype);
    const Tensor index = cast(randint(0, from.axis, shape_of(to), random.generator()),
                              seed % 3 ? DType::int64 : DType::int32);
    const auto want =
        reference::gather(x.to_vector<double>(), from, index.to_vector<std::int64_t>(), to);
    expect_close(moved(gather(random.strided(moved(x, axis)), axis, moved(index, axis)), axis),
                 want);
  }
}

TEST(GatherTest, ScatterAddAgreesWithReference) {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    Drawn drawn(seed);
    Random& random = drawn.random;
    const DType dtype = kFloats[seed % 4];
    const reference::Extents to = drawn.extents(), covered = drawn.covered_by(to);
    const reference::Extents from{covered.outer + random.integer(0, 2),
                                  covered.axis + random.integer(0, 2),
                                  covered.inner + random.integer(0, 2)};
    const int axis = drawn.axis();
    const Tensor x = random.tensor(shape_of(to), dtype), src = random.tensor(shape_of(from), dtype);
    const Tensor index = randint(0, to.axis, shape_of(covered), random.generator());
    const auto want =
        reference::scatter_add(x.to_vector<double>(), to, index.to_vector<std::int64_t>(), covered,
                               src.to_vector<double>(), from);
    const Tensor y = scatter_add(random.strided(moved(x, axis)), axis, moved(index, axis),
                                 random.strided(moved(src, axis)));
    expect_close(moved(y, axis), want, 64);
  }
}

TEST(GatherTest, ScatterAddAlongFewLongLinesAgreesWithReference) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    Random random(seed);
    const DType dtype = kFloats[seed % 4];
    const reference::Extents to{2, seed < 4 ? 40 : 3000, 3}, covered{2, 2200, 2}, from{2, 2201, 3};
    const int axis = static_cast<int>(seed % 3);
    const Tensor x = random.tensor(shape_of(to), dtype), src = random.tensor(shape_of(from), dtype);
    const Tensor index = cast(randint(0, to.axis, shape_of(covered), random.generator()),
                              seed % 2 ? DType::int64 : DType::int32);
    const auto want =
        reference::scatter_add(x.to_vector<double>(), to, index.to_vector<std::int64_t>(), covered,
                               src.to_vector<double>(), from);
    const Tensor y = scatter_add(random.strided(moved(x, axis)), axis, moved(index, axis),
                                 random.strided(moved(src, axis)));
    expect_close(moved(y, axis), want, 1024);
  }
}

TEST(GatherTest, ScatterKeepsTheLastOfSeveralElements) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Drawn drawn(seed);
    Random& random = drawn.random;
    const reference::Extents to = drawn.extents(), covered = drawn.covered_by(to);
    const int axis = drawn.axis();
    const DType dtype = seed % 5 == 4 ? DType::bool_ : kFloats[seed % 4];
    const Tensor x = random.tensor(shape_of(to), dtype);
    const Tensor src = random.tensor(shape_of(covered), dtype);
    const Tensor index = randint(0, to.axis, shape_of(covered), random.generator());
    auto want = x.to_vector<double>();
    const auto from = src.to_vector<double>();
    const auto targets = index.to_vector<std::int64_t>();
    for (std::int64_t o = 0; o < covered.outer; ++o)
      for (std::int64_t a = 0; a < covered.axis; ++a)
        for (std::int64_t i = 0; i < covered.inner; ++i)
          want[to.at(o, targets[covered.at(o, a, i)], i)] = from[covered.at(o, a, i)];
    const Tensor y = scatter(random.strided(moved(x, axis)), axis, moved(index, axis),
                             random.strided(moved(src, axis)));
    expect_close(moved(y, axis), want);
  }
}

TEST(GatherTest, GathersFromALongRowInPieces) {
  Random random(3);
  const Tensor x = random.tensor({5, 3}), index = randint(0, 5, {20'000, 1}, random.generator());
  const Tensor long_row = view::transpose(index, 0, 1);  // (1, 20000)
  const auto from = x.to_vector<double>();
  const auto indices = index.to_vector<std::int64_t>();
  std::vector<double> want;
  for (const std::int64_t i : indices) want.push_back(from[static_cast<std::size_t>(3 * i)]);
  const Team team(2);
  expect_close(gather(x, 0, index), want);
  expect_close(gather(view::transpose(x, 0, 1), 1, long_row), want);
}

TEST(GatherTest, ScatterSumStartsFromZeros) {
  const Tensor src = tensor({{1., 2.}, {3., 4.}});
  expect_close(scatter_sum({2, 3}, 1, int64_rows({{2, 2}, {0, 1}}), src),
               tensor({{0., 0., 3.}, {3., 4., 0.}}));
}

TEST(GatherTest, ScatterAddLeavesItsArgumentsAlone) {
  const Tensor x = zeros({1, 2}), src = ones({1, 2});
  scatter_add(x, 1, int64_rows({{0, 0}}), src);
  expect_close(x, {0, 0});
  expect_close(src, {1, 1});
}

TEST(GatherTest, ScatterAddRounds16BitResultsOnce) {
  const Tensor x = zeros({1}, {.dtype = DType::bfloat16});
  const Tensor index = zeros({300}, {.dtype = DType::int64});
  expect_close(scatter_add(x, 0, index, ones({300}, {.dtype = DType::bfloat16})), {300});
}

TEST(GatherTest, ScatterAddDoesNotDependOnTheNumberOfThreads) {
  Random random(1);
  const Tensor x = random.tensor({500, 7}), src = random.tensor({500, 90});
  const Tensor index = randint(0, 7, {500, 90}, random.generator());
  const auto add = [&](int threads) {
    const Team team(threads);
    return scatter_add(x, 1, index, src);
  };
  expect_same_bits(add(1), add(2));
}

// The indices of a long row are checked piece by piece, by many threads.
TEST(GatherTest, NamesTheFirstBadIndexWhereverItIs) {
  const Team team(2);
  const auto expect_found = [](const Shape& shape, std::int64_t first, std::int64_t second) {
    const Tensor x = zeros({shape[0], 7}), index = zeros(shape, {.dtype = DType::int32});
    const Tensor flat = view::reshape(index, {index.numel()});
    for (const std::int64_t place : {first, second})
      fill_(view::select(flat, 0, place), place == first ? 7 : -1);
    expect_throws<IndexError>(
        [&] { gather(x, 1, index); },
        concat("got 7 at position (", first / shape[1], ", ", first % shape[1], ")"));
  };
  expect_found({2, 20'000}, 9'000, 39'999);  // pieces of rows
  expect_found({500, 90}, 30'007, 44'999);   // rows
  expect_found({9'000, 3}, 14'000, 26'000);  // short rows
}

TEST(GatherTest, ThrowsForArgumentsThatDoNotFit) {
  const Tensor x = zeros({2, 3});
  expect_throws<IndexError>(
      [&] {
        gather(x, 1, int64_rows({{0, 3}}));
      },
      "gather: index must be in [0, 3); got 3 at position (0, 1)");
  expect_throws<IndexError>([&] { gather(x, 1, int64_rows({{-1}})); }, "got -1");
  expect_throws<ShapeError>(
      [&] {
        gather(x, 1, int64_rows({{0}, {0}, {0}}));
      },
      "index must not be longer than x along axis 0; got (3, 1) and (2, 3)");
  expect_throws<ShapeError>([&] { gather(x, 0, zeros({2}, {.dtype = DType::int64})); },
                            "as many axes; got (2,) and (2, 3)");
  expect_throws<DTypeError>([&] { gather(x, 0, zeros({2, 3})); }, "got float32");
  expect_throws<ShapeError>([&] { gather(x, 2, int64_rows({{0}})); }, "gather");
  expect_throws<ShapeError>(
      [&] {
        scatter_add(x, 1, int64_rows({{0, 0}}), zeros({1, 1}));
      },
      "index must not be longer than src along axis 1");
  expect_throws<DTypeError>(
      [&] {
        scatter_add(x, 1, int64_rows({{0}}), zeros({1, 1}, {.dtype = DType::float64}));
      },
      "float32 and float64");
  expect_throws<IndexError>(
      [&] {
        scatter_add(x, 1, int64_rows({{7}}), zeros({1, 1}));
      },
      "scatter_add: index must be in [0, 3); got 7");
  const Tensor many = full({1, 200}, -2, {.dtype = DType::int64});
  expect_throws<IndexError>([&] { scatter_add(x, 1, many, zeros({1, 200})); }, "got -2");
}

}  // namespace
}  // namespace ringrad::kernels
