#include "ringrad/linalg.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/golden/golden.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/testing.h"

namespace ringrad::linalg {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;
using testing::Team;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSlack = 1 << 12;

Tensor mt(const Tensor& x) { return transpose(x, -2, -1); }
Tensor identity(std::int64_t n, DType dtype = DType::float64) { return eye(n, {.dtype = dtype}); }

// Well away from singular.
Tensor regular(Random& random, const Shape& shape, DType dtype = DType::float64) {
  return random.tensor(shape, dtype) + eye(shape.back(), {.dtype = dtype}) * 4;
}

Tensor positive(const Tensor& x) {
  return matmul(x, mt(x)) + eye(x.size(-2), {.dtype = x.dtype()});
}

void check_gradients(const DifferentiableFunction& f, std::vector<Tensor> inputs,
                     Where where = Where::current()) {
  for (Tensor& x : inputs) x = x.detach().set_requires_grad();
  const ::testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "");
  EXPECT_EQ(gradient_check(f, inputs), "");
  EXPECT_EQ(gradient_gradient_check(f, inputs, {.absolute_tolerance = 1e-4}), "");
}

// The definition: the sum over columns of the first row, with cofactors.
double determinant(const std::vector<double>& x, std::size_t n) {
  if (n == 0) return 1;
  double total = 0;
  for (std::size_t column = 0; column < n; ++column) {
    std::vector<double> minor;
    for (std::size_t i = 1; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        if (j != column) minor.push_back(x[i * n + j]);
    total += (column % 2 == 0 ? 1 : -1) * x[column] * determinant(minor, n - 1);
  }
  return total;
}

// -- Factors multiply to the matrix ---------------------------------------------------------------

TEST(LinalgTest, FactorsMultiplyToTheMatrixInEveryLayout) {
  Random random(1);
  for (const DType dtype : {DType::float32, DType::float64})
    for (const Shape& shape : {Shape{4, 4}, Shape{2, 3, 5, 3}, Shape{2, 3, 5}, Shape{1, 1}}) {
      SCOPED_TRACE(concat(dtype, ' ', shape));
      const Tensor x = random.strided(random.tensor(shape, dtype));
      const std::int64_t k = std::min(x.size(-1), x.size(-2));
      const auto [q, r] = qr(x);
      expect_close(matmul(q, r), x, kSlack);
      expect_close(matmul(mt(q), q), expand(identity(k), matmul(mt(q), q).shape()), kSlack);
      const auto [u, s, vh] = svd(x);
      expect_close(matmul(u * unsqueeze(s, -2), vh), x, kSlack);
      expect_close(matmul(vh, mt(vh)), expand(identity(k), matmul(vh, mt(vh)).shape()), kSlack);
      expect_close(sum(square(s)), sum(square(x)), kSlack);
      const Tensor square_matrix = positive(x);
      const Tensor y = cholesky(square_matrix);
      expect_close(matmul(y, mt(y)), square_matrix, kSlack);
      const auto [values, vectors] = eigh(square_matrix);
      expect_close(matmul(vectors * unsqueeze(values, -2), mt(vectors)), square_matrix, kSlack);
    }
}

TEST(LinalgTest, TrianglesAreTriangles) {
  Random random(2);
  const Tensor x = random.tensor({3, 3}, DType::float64);
  const Tensor r = qr(x).r, y = cholesky(positive(x));
  for (const auto& [row, column] : {std::pair{1, 0}, std::pair{2, 0}, std::pair{2, 1}}) {
    EXPECT_EQ(r[row][column].item<double>(), 0);
    EXPECT_EQ(y[column][row].item<double>(), 0);
  }
}

TEST(LinalgTest, SymmetricFactorsReadTheLowerTriangle) {
  const Tensor x = tensor({{4., 99.}, {2., 3.}}, DType::float64);
  expect_close(cholesky(x), {2, 0, 1, std::sqrt(2.)});
  const double root = std::sqrt(17.);
  expect_close(eigh(x).values, {(7 - root) / 2, (7 + root) / 2});
}

// -- Equations ------------------------------------------------------------------------------------

TEST(LinalgTest, SolutionsSolveTheirEquations) {
  Random random(3);
  for (const DType dtype : {DType::float32, DType::float64}) {
    const std::pair<Shape, Shape> pairs[] = {{{4, 4}, {4, 2}},
                                             {{4, 4}, {4}},
                                             {{3, 4, 4}, {4, 2}},
                                             {{4, 4}, {3, 4, 1}},
                                             {{2, 1, 3, 3}, {3, 3, 2}}};
    for (const auto& [of_a, of_b] : pairs) {
      SCOPED_TRACE(concat(of_a, ' ', of_b));
      const Tensor a = random.strided(regular(random, of_a, dtype));
      const Tensor b = random.strided(random.tensor(of_b, dtype));
      const Tensor product = matmul(a, solve(a, b));
      expect_close(product, expand(b, product.shape()), kSlack);
    }
    const Tensor a = regular(random, {2, 3, 3}, dtype);
    expect_close(matmul(inv(a), a), expand(identity(3), {2, 3, 3}), kSlack);
  }
}

// A pivot whose reciprocal overflows. Powers of two, so that scaling a column is exact.
TEST(LinalgTest, SubnormalColumnsHaveTheSolutionsOfScaledOnes) {
  for (const auto& [dtype, bits] : {std::pair(DType::float32, 129), {DType::float64, 1025}})
    for (const std::int64_t n : {3, 70}) {
      Random random(7);
      const Tensor a = round(random.tensor({n, n}, dtype) * 64) / 64 + eye(n, {.dtype = dtype}) * n;
      const Tensor b = random.tensor({n, 5}, dtype) / 8, scaled = clone(a);
      mul_(select(scaled, -1, 1), std::ldexp(1., -bits));
      const Tensor x = solve(scaled, b);
      mul_(x[1], std::ldexp(1., -bits));
      expect_close(x, solve(a, b), kSlack);
    }
}

TEST(LinalgTest, DeterminantsAgreeWithTheirDefinition) {
  Random random(4);
  for (const std::int64_t n : {1, 2, 3, 4, 5}) {
    const Tensor x = random.tensor({3, n, n}, DType::float64);
    std::vector<double> expected;
    for (const Tensor matrix : x)
      expected.push_back(determinant(matrix.to_vector<double>(), static_cast<std::size_t>(n)));
    expect_close(det(x), expected, kSlack);
    const auto [sign, logabsdet] = slogdet(x);
    expect_close(sign * exp(logabsdet), expected, kSlack);
  }
  expect_close(det(tensor({{1., 2.}, {2., 4.}})), {0});
  const auto [sign, logabsdet] = slogdet(zeros({2, 2}));
  expect_close(sign, {0});
  expect_close(logabsdet, {-kInfinity});
  expect_close(slogdet(eye(400) * -1e-3).logabsdet, {400 * std::log(1e-3)});
}

TEST(LinalgTest, LeastSquaresAreOrthogonalToWhatIsLeft) {
  Random random(5);
  const Tensor a = random.tensor({2, 6, 3}, DType::float64);
  const Tensor b = random.tensor({2, 6, 2}, DType::float64);
  const Tensor left = matmul(a, lstsq(a, b)) - b;
  expect_close(matmul(mt(a), left), zeros({2, 3, 2}), kSlack);
  const Tensor wide = random.tensor({3, 5}, DType::float64),
               side = random.tensor({3, 1}, DType::float64);
  const Tensor x = lstsq(wide, side);
  expect_close(matmul(wide, x), side, kSlack);
  // The shortest solution is a combination of wide's rows.
  expect_close(matmul(mt(wide), solve(matmul(wide, mt(wide)), matmul(wide, x))), x, kSlack);
}

TEST(LinalgTest, EmptyBatchesAndMatricesPass) {
  EXPECT_EQ(svd(empty({0, 3, 2})).s.shape(), (Shape{0, 2}));
  EXPECT_EQ(qr(empty({2, 3, 0})).r.shape(), (Shape{2, 0, 0}));
  EXPECT_EQ(cholesky(empty({0, 0})).shape(), (Shape{0, 0}));
  EXPECT_EQ(eigh(empty({2, 0, 0})).values.shape(), (Shape{2, 0}));
  EXPECT_EQ(solve(empty({0, 2, 2}), empty({2, 1})).shape(), (Shape{0, 2, 1}));
  expect_close(det(empty({2, 0, 0})), {1, 1});
  const Tensor x = empty({0, 3, 3}).set_requires_grad();
  sum(inv(x)).backward();
  EXPECT_EQ(x.grad().shape(), (Shape{0, 3, 3}));
}

// -- Threads --------------------------------------------------------------------------------------

TEST(LinalgTest, ResultsDoNotDependOnTheNumberOfThreads) {
  Random random(6);
  const Tensor x = random.tensor({40, 24, 24}, DType::float64);
  const auto all = [&] {
    const auto [q, r] = qr(x);
    const auto [u, s, vh] = svd(x);
    const auto [values, vectors] = eigh(positive(x));
    return std::vector<Tensor>{q, r, u, s, vh, values, vectors, inv(x), det(x)};
  };
  std::vector<Tensor> one, many;
  {
    const Team team(1);
    one = all();
  }
  {
    const Team team(3);
    many = all();
  }
  for (std::size_t i = 0; i < one.size(); ++i) expect_same_bits(many[i], one[i]);
}

TEST(LinalgTest, ThreadsMayCallAtTheSameTime) {
  Random random(7);
  const Tensor x = random.tensor({4, 60, 60}, DType::float64);
  const Tensor expected = svd(x).s, inverse = inv(x);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 5; ++repeat) {
        expect_same_bits(svd(x).s, expected);
        expect_same_bits(inv(x), inverse);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// -- Gradients ------------------------------------------------------------------------------------

TEST(LinalgTest, GradientsOfEquationsAgreeWithDifferences) {
  Random random(8);
  const Tensor a = regular(random, {2, 3, 3}), b = random.tensor({3, 2}, DType::float64);
  check_gradients([](const auto& in) { return solve(in[0], in[1]); }, {a, b});
  check_gradients([](const auto& in) { return solve(in[0], in[1]); },
                  {regular(random, {3, 3}), random.tensor({3}, DType::float64)});
  check_gradients([](const auto& in) { return inv(in[0]); }, {a});
  check_gradients([](const auto& in) { return det(in[0]); }, {a / 4});
  check_gradients([](const auto& in) { return slogdet(in[0]).logabsdet; }, {a});
  for (const Shape& shape : {Shape{4, 2}, Shape{2, 4}})
    check_gradients(
        [](const auto& in) { return lstsq(in[0], in[1]); },
        {random.tensor(shape, DType::float64), random.tensor({shape[0], 2}, DType::float64)});
}

TEST(LinalgTest, GradientsOfFactorsAgreeWithDifferences) {
  Random random(9);
  check_gradients([](const auto& in) { return cholesky(positive(in[0])); },
                  {random.tensor({2, 3, 3}, DType::float64)});
  for (const Shape& shape : {Shape{3, 3}, Shape{2, 4, 2}, Shape{2, 4}}) {
    SCOPED_TRACE(concat(shape));
    const Tensor x = random.tensor(shape, DType::float64);
    check_gradients(
        [](const auto& in) {
          const auto [q, r] = qr(in[0]);
          return concatenate({flatten(q), flatten(r)});
        },
        {x});
    check_gradients([](const auto& in) { return qr(in[0]).q; }, {x});
    check_gradients([](const auto& in) { return svd(in[0]).s; }, {x});
    // Products in which the signs of singular vectors cancel.
    check_gradients(
        [](const auto& in) {
          const auto [u, s, vh] = svd(in[0]);
          return concatenate(
              {flatten(matmul(u / unsqueeze(s, -2), vh)), flatten(square(u)), flatten(square(vh))});
        },
        {x});
  }
  check_gradients([](const auto& in) { return eigh(in[0] + mt(in[0])).values; },
                  {random.tensor({2, 3, 3}, DType::float64)});
  check_gradients(
      [](const auto& in) {
        const auto [values, vectors] = eigh(in[0] + mt(in[0]));
        return flatten(matmul(vectors * unsqueeze(exp(values), -2), mt(vectors))) +
               flatten(square(vectors));
      },
      {random.tensor({3, 3}, DType::float64)});
}

TEST(LinalgTest, ValuesAndGradientsMatchPyTorch) {
  const auto symmetric = [](const Tensor& x) { return x + mt(x); };
  const auto rebuilt = [](const Tensor& x) {
    const auto [u, s, vh] = svd(x);
    return matmul(u / unsqueeze(s, -2), vh);
  };
  const auto cases = testing::read_golden("linalg");
  using Function = std::function<Tensor(const Tensor& x, const Tensor& side)>;
  const std::pair<const char*, Function> functions[] = {
      {"solve", [](const Tensor& x, const Tensor& side) { return solve(x, side); }},
      {"inv", [](const Tensor& x, const Tensor&) { return inv(x); }},
      {"det", [](const Tensor& x, const Tensor&) { return det(x); }},
      {"slogdet", [](const Tensor& x, const Tensor&) { return slogdet(x).logabsdet; }},
      {"lstsq", [](const Tensor& x, const Tensor& side) { return lstsq(x, side); }},
      {"cholesky",
       [](const Tensor& x, const Tensor&) { return cholesky(matmul(x, mt(x)) + eye(3)); }},
      {"qr",
       [](const Tensor& x, const Tensor&) {
         const auto [q, r] = qr(x);
         return concatenate({q, r}, 1);
       }},
      {"svd values", [](const Tensor& x, const Tensor&) { return svd(x).s; }},
      {"svd tall", [&](const Tensor& x, const Tensor&) { return rebuilt(x); }},
      {"svd wide", [&](const Tensor& x, const Tensor&) { return rebuilt(x); }},
      {"eigh values", [&](const Tensor& x, const Tensor&) { return eigh(symmetric(x)).values; }},
      {"eigh",
       [&](const Tensor& x, const Tensor&) {
         const auto [values, vectors] = eigh(symmetric(x));
         return matmul(vectors * unsqueeze(exp(values), -2), mt(vectors));
       }},
  };
  EXPECT_EQ(cases.size(), std::size(functions));
  for (const auto& [name, f] : functions) {
    SCOPED_TRACE(name);
    const auto& golden = cases.at(name);
    const Tensor x = clone(golden.at("input")).set_requires_grad();
    const Tensor y = f(x, golden.at("target"));
    sum(y).backward();
    expect_close(y, golden.at("loss"), kSlack);
    expect_close(x.grad(), golden.at("grad.input"), kSlack);
  }
}

// -- Errors ---------------------------------------------------------------------------------------

// No memory is behind these matrices: they are refused before they are copied.
TEST(LinalgTest, WorkspacesBeyond32BitsAreRefused) {
  const auto square = [](std::int64_t n) { return expand(ones({1, 1}), {n, n}); };
  expect_throws<ShapeError>([&] { svd(square(23'170)); },
                            "svd: LAPACK's workspace must be below 2^31 numbers; got matrices of "
                            "extent 23170, which need 2147557790");
  expect_throws<ShapeError>([&] { eigh(square(32'767)); }, "which need 2147549181");
}

TEST(LinalgTest, ErrorsNameTheElementOfTheBatch) {
  const Tensor x = contiguous(expand(identity(2), {2, 3, 2, 2}));
  x.data<double>()[4 * 4] = x.data<double>()[4 * 4 + 3] = -1;  // element (1, 1)
  expect_throws<ValueError>([&] { cholesky(x); },
                            "cholesky: matrices must be finite and positive definite; got one that "
                            "is not at batch element (1, 1)");
  x.data<double>()[4 * 4 + 3] = 0;
  expect_throws<ValueError>([&] { solve(x, ones({2}, {.dtype = DType::float64})); },
                            "solve: matrices must be invertible; got a singular one at batch "
                            "element (1, 1)");
  expect_throws<ValueError>([&] { inv(x); }, "at batch element (1, 1)");
  expect_throws<ValueError>([&] { lstsq(x, x); },
                            "must be finite and have full rank; got one that has not at");
  x.data<double>()[4 * 4 + 3] = std::numeric_limits<double>::quiet_NaN();
  expect_throws<ValueError>([&] { svd(x); }, "svd: matrices must be finite");
  expect_throws<ValueError>([&] { eigh(x); }, "got one that fails at batch element (1, 1)");
  expect_throws<ValueError>([&] { inv(zeros({2, 2})); }, "got a singular one");
}

TEST(LinalgTest, NanAndInfinitiesAreRefused) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                   kInf = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::float32, DType::float64})
    for (const double bad : {kNan, kInf, -kInf})
      for (const auto& [row, column] : {std::pair(0, 0), std::pair(2, 1), std::pair(2, 2)}) {
        SCOPED_TRACE(concat(dtype, ' ', bad, " at ", row, ' ', column));
        const Tensor x = eye(3, {.dtype = dtype}) * 4;
        fill_(x[{row, column}], bad);
        expect_throws<ValueError>([&] { cholesky(x); },
                                  "cholesky: matrices must be finite and positive definite");
        expect_throws<ValueError>([&] { svd(x); }, "svd: matrices must be finite");
        expect_throws<ValueError>([&] { eigh(x); }, "eigh: matrices must be finite");
        expect_throws<ValueError>(
            [&] {
              lstsq(x, ones({3, 1}, {.dtype = dtype}));
            },
            "lstsq: matrices must be finite");
      }
  const Tensor x = eye(2);
  fill_(x[{0, 1}], kNan);  // above the diagonal, which is not read
  expect_close(cholesky(x), eye(2));
}

TEST(LinalgTest, Throws) {
  const Tensor x = ones({2, 3});
  expect_throws<ShapeError>([&] { det(x); }, "det: matrices must be square; got shape (2, 3)");
  expect_throws<ShapeError>([&] { svd(ones({3})); }, "svd: matrices must have two axes");
  expect_throws<ShapeError>([&] { solve(eye(2), ones({3, 1})); }, "must have as many rows");
  expect_throws<DTypeError>(
      [&] {
        qr(ones({2, 2}, {.dtype = DType::bfloat16}));
      },
      "qr: the dtype must be float32 or float64; got bfloat16");
  expect_throws<DTypeError>(
      [&] {
        solve(eye(2), ones({2, 1}, {.dtype = DType::float64}));
      },
      "solve");
  const Tensor on_gpu = ones({2, 2}, {.device = Device("cuda")});
  expect_throws<DeviceError>([&] { inv(on_gpu); },
                             "inv: the tensor must be on a CPU, where to(x, Device(\"cpu\")) moves "
                             "it; got cuda:0");
  const Tensor none;
  expect_throws<ValueError>([&] { inv(none); }, "must be defined");
  expect_throws<ValueError>([&] { solve(eye(2), none); }, "must be defined");
}

}  // namespace
}  // namespace ringrad::linalg
