#include "ringrad/kernels/index/index_select.h"

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
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
constexpr DType kAll[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16,
                          DType::int32,   DType::int64,   DType::uint8,   DType::bool_};

Tensor numbers(std::initializer_list<std::int64_t> values) {
  return from_values(std::span(values.begin(), values.size()),
                     {static_cast<std::int64_t>(values.size())});
}

// At least one axis.
Shape shape_with_axes(Random& random, std::int64_t largest) {
  Shape shape = random.shape(3, largest);
  shape.insert(0, random.integer(1, largest + 1));
  return shape;
}

reference::Extents extents(const Shape& shape, int axis) {
  reference::Extents result{1, shape[axis], 1};
  for (int i = 0; i < axis; ++i) result.outer *= shape[i];
  for (int i = axis + 1; i < shape.size(); ++i) result.inner *= shape[i];
  return result;
}

TEST(IndexSelectTest, PicksRowsOrColumns) {
  const Tensor x = tensor({{1., 2., 3.}, {4., 5., 6.}});
  expect_close(index_select(x, 0, numbers({1, 1, 0})),
               tensor({{4., 5., 6.}, {4., 5., 6.}, {1., 2., 3.}}));
  expect_close(index_select(x, -1, numbers({2, 0})), tensor({{3., 1.}, {6., 4.}}));
}

TEST(IndexSelectTest, AgreesWithReference) {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    Random random(seed);
    const Team team(1 + static_cast<int>(seed % 2));
    const Tensor x = random.tensor(shape_with_axes(random, 7), kAll[seed % 8]);
    const auto axis = static_cast<int>(random.integer(0, x.dims()));
    const Tensor indices =
        cast(randint(0, x.shape()[axis], {random.integer(0, 20)}, random.generator()),
             seed % 3 ? DType::int64 : DType::int32);
    const auto want = reference::index_select(x.to_vector<double>(), extents(x.shape(), axis),
                                              indices.to_vector<std::int64_t>());
    const Tensor y = index_select(x, axis, indices);
    expect_close(y, want);
    expect_same_bits(index_select(random.strided(x), axis, random.strided(indices)), y);
  }
}

TEST(IndexSelectTest, SumAgreesWithReference) {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    Random random(seed);
    const Team team(1 + static_cast<int>(seed % 2));
    const Tensor x = random.tensor(shape_with_axes(random, 9), kFloats[seed % 4]);
    const auto axis = static_cast<int>(random.integer(0, x.dims()));
    const std::int64_t size = random.integer(1, 12);
    const Tensor indices = randint(0, size, {x.shape()[axis]}, random.generator());
    reference::Extents to = extents(x.shape(), axis);
    to.axis = size;
    const auto want =
        reference::index_sum(x.to_vector<double>(), to, indices.to_vector<std::int64_t>());
    expect_close(index_sum(random.strided(x), axis, indices, size), want, 64);
  }
}

// The cases that a GPU sorts: indices of one, two and three bytes, in one and in several blocks;
// rows that are a multiple of 16 bytes or not.
TEST(IndexSelectTest, SumsOfManyIndicesAgreeWithReference) {
  struct Case {
    std::int64_t outer, num_indices, size, inner;
  };
  std::uint64_t seed = 0;
  for (const Case& c : {Case{1, 300, 1, 3},
                        {2, 700, 255, 1},
                        {1, 5000, 256, 8},
                        {1, 2049, 257, 5},
                        {3, 400, 70'000, 1}})
    for (const DType dtype : kFloats) {
      Random random(seed++);
      const Tensor x = random.tensor({c.outer, c.num_indices, c.inner}, dtype);
      const Tensor indices = cast(randint(0, c.size, {c.num_indices}, random.generator()),
                                  seed % 2 ? DType::int64 : DType::int32);
      const auto want = reference::index_sum(x.to_vector<double>(), {c.outer, c.size, c.inner},
                                             indices.to_vector<std::int64_t>());
      expect_close(index_sum(x, 1, indices, c.size), want, 1024);
    }
}

TEST(IndexSelectTest, AMillionRowsOfOneIndexSumToTheLastPlaces) {
  if (default_device().is_cuda()) GTEST_SKIP() << "GPUs may be simulated";
  const std::int64_t n = 1'000'000;
  const Tensor indices = zeros({n}, {.dtype = DType::int64});
  expect_close(index_sum(full({n, 2}, 0.1f), 0, indices, 1),
               std::vector<double>(2, 1e6 * double{0.1f}));
}

TEST(IndexSelectTest, SumsOfUnevenGroupsAgreeWithReference) {
  // Lengths on both sides of a GPU's cuts, which come every 64 or 128 positions.
  std::vector<std::int64_t> numbers;
  const std::int64_t lengths[] = {63, 1, 0, 64, 65, 2, 500, 0, 3000, 129, 0};
  for (std::size_t group = 0; group < std::size(lengths); ++group)
    numbers.insert(numbers.end(), static_cast<std::size_t>(lengths[group]),
                   static_cast<std::int64_t>(group));
  const auto n = static_cast<std::int64_t>(numbers.size());
  Random random(1);
  for (const bool shuffled : {false, true}) {
    Tensor indices = from_values<std::int64_t>(numbers, {n});
    if (shuffled) indices = index_select(indices, 0, randperm(n, random.generator()));
    const Tensor x = random.tensor({2, n, 4});
    const auto want = reference::index_sum(x.to_vector<double>(), {2, std::size(lengths), 4},
                                           indices.to_vector<std::int64_t>());
    expect_close(index_sum(x, 1, indices, std::size(lengths)), want, 1024);
  }
}

TEST(IndexSelectTest, SumRounds16BitResultsOnce) {
  // In bfloat16, 256 + 1 is 256: adding one by one would stop there.
  const Tensor x = ones({300, 1}, {.dtype = DType::bfloat16});
  const Tensor indices = zeros({300}, {.dtype = DType::int64});
  expect_close(index_sum(x, 0, indices, 1), {300});
}

TEST(IndexSelectTest, SumDoesNotDependOnTheNumberOfThreads) {
  Random random(1);
  const Tensor x = random.tensor({3, 4000, 16});
  const Tensor indices = randint(0, 50, {4000}, random.generator());
  const auto sum = [&](int threads) {
    const Team team(threads);
    return index_sum(x, 1, indices, 50);
  };
  expect_same_bits(sum(1), sum(2));
}

TEST(IndexSelectTest, TakesEmptyTensors) {
  const Tensor none = zeros({0}, {.dtype = DType::int64});
  EXPECT_EQ(index_select(zeros({3, 4}), 1, none).shape(), Shape({3, 0}));
  EXPECT_EQ(index_select(zeros({3, 0}), 0, numbers({1})).shape(), Shape({1, 0}));
  expect_close(index_sum(zeros({3, 0}), 1, none, 2), zeros({3, 2}));
}

TEST(IndexSelectTest, ThrowsForArgumentsThatDoNotFit) {
  const Tensor x = zeros({3, 4});
  expect_throws<IndexError>(
      [&] {
        index_select(x, 0, numbers({0, 3}));
      },
      "index_select: indices must be in [0, 3); got 3 at position (1,)");
  expect_throws<IndexError>([&] { index_select(x, 0, numbers({-1})); }, "got -1");
  expect_throws<IndexError>([&] { index_sum(x, 0, numbers({0, -5, 1}), 2); }, "got -5");
  const Tensor many = full({1000}, 7, {.dtype = DType::int64});
  expect_throws<IndexError>([&] { index_sum(zeros({1000, 4}), 0, many, 7); }, "got 7");
  expect_throws<ShapeError>([&] { index_select(x, 2, numbers({0})); }, "index_select");
  expect_throws<ShapeError>(
      [&] {
        index_select(x, 0, zeros({1, 1}, {.dtype = DType::int64}));
      },
      "indices must have one axis; got (1, 1)");
  expect_throws<DTypeError>([&] { index_select(x, 0, zeros({1})); }, "got float32");
  expect_throws<ShapeError>([&] { index_sum(x, 0, numbers({0}), 5); }, "got 1 indices for axis 0");
  expect_throws<DeviceError>(
      [&] { index_select(x, 0, zeros({1}, {.dtype = DType::int64, .device = "cpu:1"})); }, "cpu:1");
}

}  // namespace
}  // namespace ringrad::kernels
