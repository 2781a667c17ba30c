#include "ringrad/kernels/matmul/matmul.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/reference/matmul.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_throws;
using ringrad::testing::Random;
using ringrad::testing::Team;

constexpr DType kFloats[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};

double slack(std::int64_t K) { return 64 * std::sqrt(static_cast<double>(K + 1)); }

// Compares a (M, K) * b (K, N), with any strides, with the reference.
void expect_product(const Tensor& a, const Tensor& b) {
  const std::int64_t M = a.shape()[0], K = a.shape()[1], N = b.shape()[1];
  const auto left = a.to_vector<double>(), right = b.to_vector<double>();
  expect_close(matmul(a, b), reference::matmul(M, N, K, left.data(), right.data()), slack(K));
}

TEST(MatmulTest, IsTheDefinitionForEveryShapeDtypeAndOrderOfMemory) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const Team team(1 + static_cast<int>(seed % 2));
    const DType dtype = kFloats[seed % 4];
    // Above 16384 products another kernel takes over.
    const std::int64_t largest = seed % 3 == 0 ? 70 : 20;
    const std::int64_t M = random.integer(1, largest), N = random.integer(1, largest),
                       K = random.integer(0, largest);
    const Tensor a = random.tensor({M, K}, dtype), b = random.tensor({K, N}, dtype);
    expect_product(a, b);
    expect_product(random.strided(a), random.strided(b));
    expect_product(view::transpose(random.tensor({K, M}, dtype), 0, 1),
                   view::transpose(random.tensor({N, K}, dtype), 0, 1));
  }
}

// Windows overlap, and whole batches repeat. (Copies have neither.)
TEST(MatmulTest, OperandsMayRepeatAndOverlap) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    Random random(5);
    const Tensor numbers = random.tensor({4000}, dtype), right = random.tensor({64, 60}, dtype);
    const auto expect_as_of_copies = [](const Tensor& a, const Tensor& b) {
      expect_close(matmul(a, b), matmul(contiguous(a), contiguous(b)).to_vector<double>(),
                   slack(a.shape().back()));
    };
    expect_as_of_copies(view::as_strided(numbers, {7, 16, 64}, {16, 64, 1}, 0), right);
    expect_as_of_copies(view::as_strided(numbers, {100, 64}, {1, 1}, 0), right);
    expect_as_of_copies(view::as_strided(numbers, {50, 64}, {3, 7}, 0), right);
    expect_as_of_copies(random.tensor({5, 40, 100}, dtype),
                        view::as_strided(numbers, {5, 100, 64}, {10, 20, 1}, 0));
    expect_as_of_copies(view::expand(random.tensor({40, 64}, dtype), {5, 40, 64}),
                        view::expand(right, {5, 64, 60}));
  }
}

// Long sums of a batch whose left matrices lie transposed, as in the gradient of a batch's weight.
TEST(MatmulTest, ABatchMayHaveLongSumsOfTransposedMatrices) {
  Random random(6);
  const Team team(2);
  const Tensor a = view::transpose(random.tensor({2, 2500, 8}), 1, 2),
               b = random.tensor({2, 2500, 16});
  const Tensor product = matmul(a, b);
  for (std::int64_t i = 0; i < 2; ++i) {
    const auto left = view::select(a, 0, i).to_vector<double>(),
               right = view::select(b, 0, i).to_vector<double>();
    expect_close(view::select(product, 0, i),
                 reference::matmul(8, 16, 2500, left.data(), right.data()), slack(2500));
  }
}

// Whether the rows of the batch go on as those of one matrix, or lie apart.
TEST(MatmulTest, OuterProductsMayShareARow) {
  Random random(7);
  const Tensor row = random.tensor({1, 64});
  const auto right = row.to_vector<double>();
  for (const Tensor& a : {random.tensor({4, 200, 1}), random.tensor({4, 400, 2}),
                          view::transpose(random.tensor({200, 4, 1}), 0, 1)}) {
    const Tensor columns = view::slice(view::slice(a, 1, 0, 200), 2, 0, 1);
    const Tensor product = matmul(columns, row);
    for (std::int64_t i = 0; i < 4; ++i) {
      const auto left = view::select(columns, 0, i).to_vector<double>();
      expect_close(view::select(product, 0, i),
                   reference::matmul(200, 64, 1, left.data(), right.data()), slack(1));
    }
  }
  expect_product(random.tensor({800, 1}), row);
}

TEST(MatmulTest, ReluKeepsNaN) {
  for (const std::int64_t rows : {2, 9, 200})  // few rows, packed loops, and oneDNN
    for (const DType dtype : kFloats) {
      const Tensor a = full({rows, 40}, std::numeric_limits<double>::quiet_NaN(), {.dtype = dtype});
      for (const double y :
           matmul(a, ones({40, 50}, {.dtype = dtype}), {.relu = true}).to_vector<double>())
        ASSERT_TRUE(std::isnan(y)) << rows << " rows, " << dtype;
    }
}

// Up to four rows, the other matrix is read where it lies: rows or columns may be contiguous.
TEST(MatmulTest, MultipliesFewRowsWithTheSameBitsForEveryTeam) {
  Random random(3);
  for (const std::int64_t M : {1, 2, 4})
    for (const auto& [K, N] : {std::pair{256, 1100}, {67, 1029}, {1, 40}, {300, 3}}) {
      const Tensor a = random.tensor({3, M, K}), b = random.tensor({3, K, N}),
                   columns = random.tensor({3, N, K});
      for (const Tensor& right : {b, view::transpose(columns, 1, 2)}) {
        const Tensor one = [&] {
          const Team team(1);
          return matmul(a, right);
        }();
        const Team team(2);
        EXPECT_EQ(matmul(a, right).to_vector<float>(), one.to_vector<float>());
        expect_product(view::select(a, 0, 1), view::select(right, 0, 1));
      }
    }
}

TEST(MatmulTest, MultipliesLargeMatricesByTeams) {
  Random random(1);
  for (const int threads : {1, 2})
    for (const DType dtype : {DType::float32, DType::float64}) {
      const Team team(threads);
      const Tensor a = random.tensor({150, 301}, dtype), b = random.tensor({301, 133}, dtype);
      expect_product(a, b);
      expect_product(view::slice(a, 1, 3, 200), view::slice(b, 0, 3, 200));
    }
}

// A GPU cuts a product into tiles of 64 or 128 rows and columns, and a long sum into slices. The
// sizes give whole tiles and tiles with a remainder on one side, with rows that can be read in
// packs of 8, 4 or 1.
TEST(MatmulTest, PutsTilesAndSlicesTogether) {
  struct Extents {
    std::int64_t M, N, K;
  };
  const Extents cases[] = {{64, 64, 64}, {136, 72, 40}, {65, 63, 33}, {132, 60, 20},
                           {1, 66, 257}, {130, 1, 261}, {8, 16, 552}, {12, 20, 516},
                           {7, 9, 601},  {1, 1, 1000}};
  Random random(7);
  for (const DType dtype : kFloats)
    for (const auto& [M, N, K] : cases) {
      const Tensor a = random.tensor({M, K}, dtype), b = random.tensor({K, N}, dtype);
      const Tensor a_columns = random.tensor({K, M}, dtype),
                   b_columns = random.tensor({N, K}, dtype);
      expect_product(a, b);
      expect_product(a, view::transpose(b_columns, 0, 1));
      expect_product(view::transpose(a_columns, 0, 1), b);
      expect_product(view::transpose(a_columns, 0, 1), view::transpose(b_columns, 0, 1));
    }
}

TEST(MatmulTest, ReadsRepeatedElements) {
  Random random(2);
  expect_product(view::expand(random.tensor({1, 1}), {40, 30}), random.tensor({30, 50}));
  expect_product(view::expand(random.tensor({1, 30}), {40, 30}),
                 view::expand(random.tensor({30, 1}), {30, 50}));
}

TEST(MatmulTest, BroadcastsBatches) {
  const std::pair<Shape, Shape> cases[] = {{{3, 4, 5}, {3, 5, 6}},
                                           {{3, 4, 5}, {5, 6}},
                                           {{4, 5}, {3, 5, 6}},
                                           {{2, 1, 4, 5}, {1, 3, 5, 6}},
                                           {{2, 3, 4, 5}, {3, 5, 6}},
                                           {{0, 4, 5}, {5, 6}},
                                           {{2, 3, 30, 40}, {3, 40, 50}},
                                           {{7, 30, 40}, {40, 50}},
                                           {{1, 30, 40}, {4, 40, 50}},
                                           {{2, 2, 30, 40}, {2, 1, 40, 50}},
                                           {{3, 1, 20, 600}, {1, 2, 600, 12}},
                                           {{70, 20, 36}, {70, 36, 132}}};
  Random random(3);
  for (const auto& [a_shape, b_shape] : cases) {
    const Tensor a = random.strided(random.tensor(a_shape));
    const Tensor b = random.strided(random.tensor(b_shape));
    const Tensor product = matmul(a, b);
    Shape batch = product.shape();
    batch.erase(batch.size() - 1);
    batch.erase(batch.size() - 1);
    const auto full = [&](const Tensor& x) {
      Shape shape = batch;
      shape.push_back(x.shape()[x.dims() - 2]);
      shape.push_back(x.shape().back());
      return view::expand(x, shape).to_vector<double>();
    };
    const std::int64_t M = a_shape[a_shape.size() - 2], K = a_shape.back(), N = b_shape.back();
    const auto left = full(a), right = full(b);
    std::vector<double> expected;
    for (std::int64_t i = 0; i < batch.numel(); ++i) {
      const auto one = reference::matmul(M, N, K, &left[i * M * K], &right[i * K * N]);
      expected.insert(expected.end(), one.begin(), one.end());
    }
    expect_close(product, expected, slack(K));
  }
}

TEST(MatmulTest, AddsBiasAndCutsNegativesOff) {
  const std::pair<std::int64_t, std::int64_t> extents[] = {
      {3, 70}, {7, 7}, {60, 60}, {75, 100}, {9, 520}};
  Random random(4);
  for (const DType dtype : kFloats)
    for (const auto& [M, K] : extents)
      for (const bool relu : {false, true}) {
        const Tensor a = random.tensor({M, K}, dtype), b = random.tensor({K, 5}, dtype);
        const Tensor bias = view::slice(random.tensor({10}, dtype), 0, 0, 10, 2);
        const auto left = a.to_vector<double>(), right = b.to_vector<double>();
        auto expected = reference::matmul(M, 5, K, left.data(), right.data());
        const auto offsets = bias.to_vector<double>();
        for (std::size_t i = 0; i < expected.size(); ++i) {
          expected[i] += offsets[i % 5];
          if (relu) expected[i] = std::max(expected[i], 0.0);
        }
        expect_close(matmul(a, b, {bias, relu}), expected, slack(K));
      }
}

// Few rows over whole panels, blocks of columns and a remainder, each with its part of the bias.
TEST(MatmulTest, AddsBiasToFewRows) {
  Random random(5);
  const Tensor a = random.tensor({2, 40}), rows = random.tensor({40, 171}),
               bias = random.tensor({171});
  const Tensor columns = view::transpose(random.tensor({171, 40}), 0, 1);
  const auto offsets = bias.to_vector<double>(), left = a.to_vector<double>();
  for (const Tensor& b : {rows, columns}) {
    auto expected = reference::matmul(2, 171, 40, left.data(), b.to_vector<double>().data());
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] = std::max(expected[i] + offsets[i % 171], 0.0);
    expect_close(matmul(a, b, {bias, true}), expected, slack(40));
  }
}

TEST(MatmulTest, OfAnEmptySumIsTheBias) {
  expect_close(matmul(zeros({2, 0}), zeros({0, 2})), {0, 0, 0, 0});
  expect_close(matmul(zeros({2, 0}), zeros({0, 2}), {tensor({1., -2.}), true}), {1, 0, 1, 0});
}

TEST(MatmulTest, LetsNanThrough) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor product = matmul(tensor({{nan, 1}}), ones({2, 1}), {{}, true});
  EXPECT_TRUE(std::isnan(product.item()));
}

TEST(MatmulTest, WritesIntoGivenMemoryAndMarksIt) {
  Random random(5);
  const Tensor a = random.tensor({9, 4}), b = random.tensor({4, 6});
  const Tensor expected = matmul(a, b);
  const Tensor block = zeros({9, 6}), columns = view::slice(zeros({9, 12}), 1, 0, 12, 2);
  for (const Tensor& out : {block, columns}) {
    const auto version = out.version();
    matmul_out(a, b, {}, out);
    ringrad::testing::expect_same_bits(out, expected);
    EXPECT_GT(out.version(), version);
  }
}

TEST(MatmulTest, ThrowsWhenShapesDisagree) {
  const Tensor a = zeros({2, 3}), b = zeros({4, 5});
  expect_throws<ShapeError>([&] { matmul(a, b); },
                            "matmul: inner dimensions must match; got (2, 3) and (4, 5)");
  expect_throws<ShapeError>([&] { matmul(zeros({3}), b); },
                            "matmul: both sides must have at least two axes; got (3,) and (4, 5)");
  expect_throws<ShapeError>([&] { matmul(zeros({2, 2, 3}), zeros({3, 3, 4})); }, "matmul: ");
  expect_throws<ShapeError>(
      [&] {
        matmul(a, zeros({3, 5}), {zeros({4}), false});
      },
      "matmul: bias must have shape (5,); got (4,)");
  expect_throws<ShapeError>(
      [&] {
        matmul_out(a, zeros({3, 5}), {}, zeros({5, 2}));
      },
      "matmul: out must have shape (2, 5); got (5, 2)");
}

TEST(MatmulTest, ThrowsWhenDtypesOrDevicesDisagree) {
  const Tensor a = zeros({2, 3});
  expect_throws<DTypeError>(
      [&] {
        matmul(a, zeros({3, 2}, {.dtype = DType::float64}));
      },
      "matmul: dtypes must be equal; got float32 and float64");
  const Tensor integers = zeros({2, 2}, {.dtype = DType::int64});
  expect_throws<DTypeError>([&] { matmul(integers, integers); }, "matmul: needs a floating dtype");
  expect_throws<DeviceError>(
      [&] {
        matmul(a, zeros({3, 2}, {.device = "cpu:1"}));
      },
      "matmul: tensors must be on one device");
}

}  // namespace
}  // namespace ringrad::kernels
