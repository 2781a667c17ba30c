// Scans, sorting and searching against plain loops in double.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/order/scan.h"
#include "ringrad/kernels/order/searchsorted.h"
#include "ringrad/kernels/order/sort.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_same_bits;
using ringrad::testing::expect_throws;
using ringrad::testing::Random;
using ringrad::testing::Team;

constexpr DType kAll[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16,
                          DType::int32,   DType::int64,   DType::uint8,   DType::bool_};

using Numbers = std::vector<double>;

// Calls body(line) for the elements of each line of x (outer, n, inner), which it may change, and
// returns them all.
template <class Body>
Numbers by_lines(Numbers x, const Lines& lines, Body body) {
  for (std::int64_t l = 0; l < lines.count(); ++l) {
    const auto at = [&](std::int64_t i) -> double& {
      return x[static_cast<std::size_t>((l / lines.inner * lines.n + i) * lines.inner +
                                        l % lines.inner)];
    };
    Numbers line;
    for (std::int64_t i = 0; i < lines.n; ++i) line.push_back(at(i));
    body(line);
    for (std::int64_t i = 0; i < lines.n; ++i) at(i) = line[static_cast<std::size_t>(i)];
  }
  return x;
}

// Shapes with short and long lines, many and few, of every kind of inner extent.
Lines random_lines(Random& random, std::uint64_t seed) {
  return {random.integer(1, 5), seed % 3 == 0 ? random.integer(250, 600) : random.integer(1, 20),
          seed % 2 ? 1 : random.integer(1, 45)};
}

TEST(ScanTest, AgreesWithLoops) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const Team team(1 + static_cast<int>(seed % 2));
    const Lines lines = random_lines(random, seed);
    const DType dtype = kAll[seed % 8];
    const Shape shape{lines.outer, lines.n, lines.inner};
    const bool floats = is_floating(dtype), reversed = seed % 4 < 2;
    const Tensor x = random.tensor(shape, dtype);
    const Tensor near_one = floats ? random.tensor(shape, 0.9, 1.1, dtype) : x;
    const auto scanned = [&](const Tensor& of, auto combine) {
      return by_lines(of.to_vector<double>(), lines, [&](Numbers& line) {
        if (reversed) std::reverse(line.begin(), line.end());
        std::partial_sum(line.begin(), line.end(), line.begin(), combine);
        if (reversed) std::reverse(line.begin(), line.end());
      });
    };
    const Tensor sum = scan(ScanOp::sum, random.strided(x), 1, reversed);
    EXPECT_EQ(sum.dtype(), floats ? dtype : DType::int64);
    expect_close(sum, scanned(x, std::plus()), 512);
    if (floats)
      expect_close(scan(ScanOp::product, random.strided(near_one), 1, reversed),
                   scanned(near_one, std::multiplies()), 512);
  }
}

TEST(ScanTest, RecurrenceAgreesWithLoops) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    Random random(seed);
    const Lines lines = random_lines(random, seed);
    const Shape shape{lines.outer, lines.n, lines.inner};
    const DType dtype = kAll[seed % 4];
    const Tensor a = random.tensor(shape, -1, 1, dtype), b = random.tensor(shape, dtype);
    const bool reversed = seed % 4 < 2;
    const auto factors = a.to_vector<double>();
    Numbers want = b.to_vector<double>();
    for (std::int64_t l = 0; l < lines.count(); ++l) {
      double y = 0;
      for (std::int64_t i = 0; i < lines.n; ++i) {
        const std::int64_t position = reversed ? lines.n - 1 - i : i;
        const auto at = static_cast<std::size_t>(
            (l / lines.inner * lines.n + position) * lines.inner + l % lines.inner);
        y = factors[at] * y + want[at];
        want[at] = y;
      }
    }
    expect_close(recurrence(random.strided(a), b, 1, reversed), want, 128);
  }
}

TEST(ScanTest, DoesNotDependOnTheNumberOfThreads) {
  Random random(4);
  const Shape shape{3, 700, 45};
  const Tensor a = random.tensor(shape, -1, 1, DType::float64);
  const Tensor b = random.tensor(shape, DType::float64);
  const auto run = [&](int threads) {
    const Team team(threads);
    return recurrence(a, b, 1, false);
  };
  expect_same_bits(run(1), run(2));
}

TEST(ScanTest, SixteenBitSumsAreRoundedOnce) {
  const Tensor y = scan(ScanOp::sum, ones({300}, {.dtype = DType::bfloat16}), 0, false);
  EXPECT_EQ(y.to_vector<double>().back(), 300);
}

TEST(ScanTest, TakesTensorsWithoutAxesOrElements) {
  expect_close(scan(ScanOp::sum, tensor(3.), 0, false), {3});
  EXPECT_EQ(scan(ScanOp::sum, zeros({2, 0}), 1, false).shape(), (Shape{2, 0}));
  expect_throws<ShapeError>([] { scan(ScanOp::sum, zeros(2), 1, false); }, "cumsum");
}

bool comes_before(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }

// The first k positions of a line in stable order.
std::vector<std::int64_t> order_of(const Numbers& line, bool descending) {
  std::vector<std::int64_t> order(line.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
    const double a = line[static_cast<std::size_t>(i)], b = line[static_cast<std::size_t>(j)];
    return descending ? comes_before(b, a) : comes_before(a, b);
  });
  return order;
}

// Numbers with ties, both zeros, infinities and NaNs.
Tensor hard_to_sort(Random& random, const Shape& shape, DType dtype) {
  Numbers values(static_cast<std::size_t>(shape.numel()));
  constexpr double kSpecial[] = {0., -0., NAN, -NAN, INFINITY, -INFINITY};
  for (double& value : values)
    value = is_floating(dtype) && random.chance(0.2) ? kSpecial[random.integer(0, 6)]
            : dtype == DType::uint8                  ? static_cast<double>(random.integer(0, 256))
            : random.chance(0.3)                     ? static_cast<double>(random.integer(-3, 3))
                                                     : std::round(random.real(-1e4, 1e4));
  return cast(from_values(std::span<const double>(values), shape), dtype);
}

void expect_sorted(const Sorted& sorted, const Tensor& x, const Lines& lines, std::int64_t k,
                   bool descending) {
  const auto in = x.to_vector<double>(), values = sorted.values.to_vector<double>();
  const auto indices = sorted.indices.to_vector<std::int64_t>();
  for (std::int64_t l = 0; l < lines.count(); ++l) {
    const std::int64_t outer = l / lines.inner, inner = l % lines.inner;
    Numbers line;
    for (std::int64_t i = 0; i < lines.n; ++i)
      line.push_back(in[static_cast<std::size_t>((outer * lines.n + i) * lines.inner + inner)]);
    const auto order = order_of(line, descending);
    for (std::int64_t i = 0; i < k; ++i) {
      const auto at = static_cast<std::size_t>((outer * k + i) * lines.inner + inner);
      const double want = line[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])];
      ASSERT_EQ(indices[at], order[static_cast<std::size_t>(i)]) << l << " " << i;
      ASSERT_TRUE(std::isnan(want)
                      ? std::isnan(values[at])
                      : values[at] == want && std::signbit(values[at]) == std::signbit(want));
    }
  }
}

TEST(SortTest, AgreesWithAStableSort) {
  for (std::uint64_t seed = 0; seed < 48; ++seed) {
    Random random(seed);
    const Team team(1 + static_cast<int>(seed % 2));
    const Lines lines = random_lines(random, seed);
    const Tensor x = hard_to_sort(random, {lines.outer, lines.n, lines.inner}, kAll[seed % 8]);
    const bool descending = seed % 4 < 2;
    expect_sorted(sort(random.strided(x), 1, descending), x, lines, lines.n, descending);
  }
}

TEST(SortTest, SortsLinesLongerThanATile) {
  Random random(1);
  for (const DType dtype : {DType::float32, DType::int64}) {
    const Lines lines{2, 1500, 1};
    const Tensor x = hard_to_sort(random, {2, 1500}, dtype);
    expect_sorted(sort(x, 1, false), x, lines, 1500, false);
  }
}

TEST(SortTest, ReadsAllBitsOf64BitIntegers) {
  constexpr std::int64_t kBig = std::int64_t{1} << 60;
  const Tensor x = tensor(std::vector<std::int64_t>{kBig + 1, -kBig, kBig, -kBig - 1});
  EXPECT_EQ(sort(x, 0, false).indices.to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{3, 1, 2, 0}));
}

TEST(TopkTest, IsTheBeginningOfTheSortedLine) {
  for (std::uint64_t seed = 0; seed < 48; ++seed) {
    Random random(seed);
    const Lines lines = random_lines(random, seed);
    const Tensor x = hard_to_sort(random, {lines.outer, lines.n, lines.inner}, kAll[seed % 8]);
    const std::int64_t k = random.integer(0, std::min<std::int64_t>(lines.n, 40) + 1);
    const bool largest = seed % 4 < 2;
    const Sorted best = topk(random.strided(x), k, 1, largest);
    EXPECT_EQ(best.values.shape(), (Shape{lines.outer, k, lines.inner}));
    expect_sorted(best, x, lines, k, largest);
  }
  // Equal elements everywhere: the first ones win.
  const Sorted equal = topk(ones(1000), 3, 0, true);
  EXPECT_EQ(equal.indices.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2}));
}

TEST(TopkTest, ThrowsForMoreThanThereAre) {
  expect_throws<ShapeError>(
      [] {
        topk(zeros({2, 3}), 4, 1, true);
      },
      "k must be at most the extent of the axis; got 4 for axis 1 of (2, 3)");
  expect_throws<ShapeError>([] { topk(zeros(3), -1, 0, true); }, "got -1");
  expect_throws<ShapeError>([] { sort(zeros(3), 1, false); }, "sort");
}

TEST(SearchsortedTest, CountsTheElementsBefore) {
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    Random random(seed);
    const DType dtype = kAll[seed % 8];
    const std::int64_t n = random.integer(0, 30), m = random.integer(1, 9);
    const Tensor lines = sort(hard_to_sort(random, {3, n}, dtype), 1, false).values;
    const Tensor values = hard_to_sort(random, {3, m}, dtype);
    const bool right = seed % 2;
    const auto sorted = lines.to_vector<double>(), wanted = values.to_vector<double>();
    Numbers places, in_first;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      for (const bool first : {false, true}) {
        const auto begin = sorted.begin() + (first ? 0 : static_cast<std::int64_t>(i) / m * n);
        (first ? in_first : places)
            .push_back(static_cast<double>(std::count_if(begin, begin + n, [&](double element) {
              return right ? !comes_before(wanted[i], element) : comes_before(element, wanted[i]);
            })));
      }
    expect_close(searchsorted(random.strided(lines), random.strided(values), right), places);
    expect_close(searchsorted(view::select(lines, 0, 0), values, right), in_first);
  }
}

TEST(SearchsortedTest, ThrowsForArgumentsThatDoNotFit) {
  expect_throws<ShapeError>(
      [] {
        searchsorted(zeros({2, 3}), zeros({3, 3}), false);
      },
      "got (2, 3) and (3, 3)");
  expect_throws<DTypeError>(
      [] { searchsorted(zeros(3), zeros({3}, {.dtype = DType::int64}), false); }, "int64");
}

}  // namespace
}  // namespace ringrad::kernels
