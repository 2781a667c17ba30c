#include "ringrad/autograd/matmul/einsum.h"

#include <map>
#include <string>
#include <vector>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/matmul/contraction.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;

using Extents = std::map<char, std::int64_t>;

// The definition: a loop over all indices, in double. Terms are letters only.
struct Reference {
  std::vector<std::string> terms;
  std::string output;
  std::vector<std::vector<double>> values;
  Extents extents;

  static std::size_t offset(const std::string& term, const Extents& extents, const Extents& index) {
    std::int64_t place = 0;
    for (const char c : term) place = place * extents.at(c) + index.at(c);
    return static_cast<std::size_t>(place);
  }

  std::vector<double> compute() const {
    std::int64_t size = 1, steps = 1;
    for (const char c : output) size *= extents.at(c);
    for (const auto& [letter, extent] : extents) steps *= extent;
    std::vector<double> result(static_cast<std::size_t>(size), 0.);
    for (std::int64_t step = 0; step < steps; ++step) {
      Extents index;
      std::int64_t rest = step;
      for (const auto& [letter, extent] : extents) {
        index[letter] = rest % extent;
        rest /= extent;
      }
      double product = 1;
      for (std::size_t k = 0; k < terms.size(); ++k)
        product *= values[k][offset(terms[k], extents, index)];
      result[offset(output, extents, index)] += product;
    }
    return result;
  }
};

// A random equation over the letters a to e, with operands that may be strided.
void expect_agreement(std::uint64_t seed, DType dtype) {
  Random random(seed);
  Reference reference;
  std::vector<Tensor> operands;
  std::string equation, used;
  for (char c = 'a'; c <= 'e'; ++c) reference.extents[c] = random.integer(1, 4);
  const std::int64_t num_operands = random.integer(1, 6);
  for (std::int64_t k = 0; k < num_operands; ++k) {
    std::string term;
    Shape shape;
    for (std::int64_t i = random.integer(0, 4); i > 0; --i) {
      const char c = static_cast<char>('a' + random.integer(0, 5));
      term += c;
      shape.push_back(reference.extents[c]);
      if (used.find(c) == std::string::npos) used += c;
    }
    const Tensor x = random.tensor(shape, dtype);
    operands.push_back(random.chance(0.5) ? random.strided(x) : x);
    reference.values.push_back(x.to_vector<double>());
    equation += (k > 0 ? "," : "") + term;
    reference.terms.push_back(term);
  }
  std::string output;
  for (const char c : used)
    if (random.chance(0.5)) output.insert(random.chance(0.5) ? output.size() : 0, 1, c);
  std::erase_if(reference.extents,
                [&](const auto& entry) { return used.find(entry.first) == std::string::npos; });
  reference.output = output;
  SCOPED_TRACE(equation + "->" + output);
  const Tensor y = einsum(equation + "->" + output, operands);
  const std::vector<double> expected = reference.compute();
  Shape shape;
  for (const char c : output) shape.push_back(reference.extents.at(c));
  EXPECT_EQ(y.shape(), shape);
  expect_close(y, expected, 1024);
}

// -- Agreement ------------------------------------------------------------------------------------

TEST(EinsumTest, AgreesWithTheReferenceOnRandomEquations) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed)
    expect_agreement(seed, seed % 3 == 0 ? DType::float64 : DType::float32);
}

TEST(EinsumTest, NamedProductsAreThoseOfTheirOperators) {
  Random random(1);
  const Tensor a = random.tensor({3, 4}), b = random.tensor({4, 5});
  const Tensor x = random.tensor({2, 3, 4}), y = random.tensor({2, 4, 5});
  const Tensor v = random.tensor({4}), w = random.tensor({4});
  expect_close(einsum("ij,jk->ik", {a, b}), matmul(a, b));
  expect_close(einsum("ij,jk", {a, b}), matmul(a, b));
  expect_close(einsum("bij,bjk->bik", {x, y}), bmm(x, y));
  expect_close(einsum("...ij,...jk", {x, y}), bmm(x, y));
  expect_close(einsum("i,i", {v, w}), sum(v * w));
  expect_close(einsum("i,j->ij", {v, w}), outer(v, w));
  expect_close(einsum("ij->ji", {a}), transpose(a, 0, 1));
  expect_close(einsum("ij->", {a}), sum(a));
  expect_close(einsum(" i j -> j ", {a}), sum(a, {0}));
  expect_close(einsum("bij,jk->bik", {x, b}), tensordot(x, b, 1));
}

TEST(EinsumTest, TheImplicitResultHasTheEllipsisAndThenSortedLetters) {
  Random random(2);
  const Tensor x = random.tensor({2, 3, 4, 5});
  expect_same_bits(einsum("...ba", {x}), einsum("...ba->...ab", {x}));
  expect_same_bits(einsum("cBaA", {x}), permute(x, {3, 1, 2, 0}));
  EXPECT_EQ(einsum("i...i", {random.tensor({3, 2, 3})}).shape(), Shape{2});
}

TEST(EinsumTest, EllipsesAndLettersBroadcast) {
  Random random(3);
  const Tensor a = random.tensor({5, 1, 2, 3}), b = random.tensor({4, 3, 2});
  expect_close(einsum("...ij,...jk->...ik", {a, b}), matmul(a, b));
  expect_close(einsum("...ij,...jk->ik", {a, b}), sum(matmul(a, b), {0, 1}));
  const Tensor column = random.tensor({1, 3});
  expect_close(einsum("ij,ij->i", {ones({2, 3}), column}), expand(sum(column, {1}), {2}));
  EXPECT_EQ(einsum("i...,->...i", {a, scalar_tensor(2)}).shape(), (Shape{1, 2, 3, 5}));
}

TEST(EinsumTest, DiagonalsAndTranspositionsAreViews) {
  const Tensor x = tensor({{1., 2.}, {3., 4.}});
  const Tensor diagonal = einsum("ii->i", {x}), transposed = einsum("ij->ji", {x});
  expect_close(diagonal, {1, 4});
  expect_close(einsum("ii", {x}), {5});
  EXPECT_EQ(diagonal.storage().get(), x.storage().get());
  EXPECT_EQ(transposed.storage().get(), x.storage().get());
}

TEST(EinsumTest, TheResultOfTwoMatricesLiesInTheOrderOfItsLetters) {
  const Tensor a = ones({2, 3, 4, 5}), b = ones({2, 3, 6, 5});
  EXPECT_TRUE(einsum("bhqd,bhkd->bhqk", {a, b}).is_contiguous());
  EXPECT_TRUE(einsum("bhqd,bhkd->bhkq", {a, b}).is_contiguous());
}

TEST(EinsumTest, NothingSumsToZero) {
  expect_close(einsum("ij,jk->ik", {ones({2, 0}), ones({0, 3})}), zeros({2, 3}));
  EXPECT_EQ(einsum("ij,jk->ik", {ones({0, 2}), ones({2, 3})}).shape(), (Shape{0, 3}));
  expect_close(einsum("bi,bi->b", {ones({2, 0}), ones({2, 0})}), {0, 0});
}

// Left to right, the first product alone would have 10^12 elements.
TEST(EinsumTest, ManyOperandsAreContractedInAGoodOrder) {
  const std::int64_t n = 1000;
  const Tensor a = ones({n, 1}), b = ones({n, n});
  for (const char* equation : {"ax,bx,bc,cx->ax", "ax,bx,cb,cx,dx,dx->ax"}) {
    std::vector<Tensor> operands{a, a, b, a};
    if (std::string(equation).find('d') != std::string::npos)
      operands.insert(operands.end(), {a, a});
    const double factor = operands.size() == 4 ? 1 : static_cast<double>(n);
    expect_close(einsum(equation, operands), full({n, 1}, static_cast<double>(n * n) * factor));
  }
}

TEST(EinsumTest, SixteenBitsAccumulateInFloat) {
  for (const DType dtype : {DType::float16, DType::bfloat16})
    expect_agreement(dtype == DType::float16 ? 301 : 302, dtype);
  const Autocast mixed(DType::bfloat16);
  EXPECT_EQ(einsum("ij,jk->ik", {ones({2, 3}), ones({3, 2})}).dtype(), DType::bfloat16);
}

// -- tensordot ------------------------------------------------------------------------------------

TEST(ContractionTest, TensordotSumsOverPairsOfAxes) {
  Random random(4);
  const Tensor a = random.strided(random.tensor({2, 3, 4})), b = random.tensor({4, 5, 2});
  expect_close(tensordot(a, b, {0, -1}, {2, 0}), einsum("ijk,kli->jl", {a, b}));
  expect_close(tensordot(a, b, 0), einsum("ijk,lmn->ijklmn", {a, b}));
  expect_close(tensordot(a, a, {0, 1, 2}, {0, 1, 2}), sum(square(a)));
}

// -- Gradients ------------------------------------------------------------------------------------

TEST(EinsumTest, GradientsAgreeWithDifferences) {
  Random random(5);
  const std::pair<const char*, std::vector<Shape>> cases[] = {
      {"ij,jk->ik", {{2, 3}, {3, 2}}},
      {"ii->i", {{3, 3}}},
      {"iij->j", {{2, 2, 3}}},
      {"bi,ij,bj->b", {{2, 3}, {3, 2}, {2, 2}}},
      {"...i,...i->...", {{2, 1, 3}, {2, 3}}},
      {"ij,kl->jl", {{2, 2}, {2, 3}}},
      {"abc,bca->cb", {{2, 2, 3}, {2, 3, 2}}},
  };
  for (const auto& [equation, shapes] : cases) {
    std::vector<Tensor> inputs;
    for (const Shape& shape : shapes)
      inputs.push_back(random.tensor(shape, DType::float64).set_requires_grad());
    const DifferentiableFunction f = [&, equation = equation](const std::vector<Tensor>& in) {
      return einsum(equation, in);
    };
    EXPECT_EQ(gradient_check(f, inputs), "") << equation;
    EXPECT_EQ(gradient_gradient_check(f, inputs), "") << equation;
  }
}

TEST(ContractionTest, GradientsAgreeWithDifferences) {
  Random random(6);
  const auto leaf = [&](const Shape& shape) {
    return random.tensor(shape, DType::float64).set_requires_grad();
  };
  const DifferentiableFunction dot = [](const std::vector<Tensor>& in) {
    return tensordot(in[0], in[1], {0, 2}, {1, 0});
  };
  EXPECT_EQ(gradient_check(dot, {leaf({2, 3, 2}), leaf({2, 2, 3})}), "");
  const DifferentiableFunction products = [](const std::vector<Tensor>& in) {
    return bmm(in[0], unsqueeze(outer(in[1], in[2]), 0));
  };
  EXPECT_EQ(gradient_check(products, {leaf({1, 2, 3}), leaf({3}), leaf({2})}), "");
}

// -- Errors ---------------------------------------------------------------------------------------

TEST(EinsumTest, ErrorsShowTheEquationAndThePosition) {
  const Tensor a = ones({2, 3}), b = ones({4, 5});
  expect_throws<ValueError>([&] { einsum("i1->i", {a}); },
                            "subscripts must be letters, an ellipsis, commas and one arrow; got "
                            "'1' at position 1 of \"i1->i\"");
  expect_throws<ValueError>([&] { einsum("ij->i->j", {a}); },
                            "there must be at most one arrow; got '-' at position 5");
  expect_throws<ValueError>([&] { einsum("...i...", {a}); },
                            "at most one ellipsis; got '.' at position 4 of \"...i...\"");
  expect_throws<ValueError>([&] { einsum("ij->i,j", {a}); }, "one result; got ',' at position 5");
  expect_throws<ValueError>([&] { einsum("ij->ik", {a}); }, "got 'k' at position 5 of \"ij->ik\"");
  expect_throws<ValueError>([&] { einsum("ij->ii", {a}); }, "must be distinct; got 'i' twice");
  expect_throws<ValueError>([&] { einsum("ij,jk->ik", {a}); },
                            "\"ij,jk->ik\" must name as many operands as there are; got 1");
  expect_throws<ShapeError>(
      [&] {
        einsum("ij,j->i", {a, b});
      },
      "operand 1, at position 3 of \"ij,j->i\", must have 1 axes; got shape "
      "(4, 5)");
  expect_throws<ShapeError>(
      [&] {
        einsum("ij,jk->ik", {a, b});
      },
      "'j' of \"ij,jk->ik\" must have one extent; got 3 in operand 0 and 4 "
      "in operand 1");
  expect_throws<ShapeError>([&] { einsum("ii->i", {a}); }, "'i' of \"ii->i\" must have one extent");
  expect_throws<ShapeError>(
      [&] {
        einsum("ii->i", {ones({1, 2})});
      },
      "axes with one letter must be equally long in \"ii->i\"");
  expect_throws<DTypeError>([&] { einsum("ij,kl->ik", {a, to(b, DType::float64)}); }, "einsum: ");
  expect_throws<DTypeError>([&] { einsum("i->i", {arange(3)}); }, "needs a floating dtype");
  const Tensor pairs = ones({2, 2, 2, 2, 2});
  expect_throws<ShapeError>(
      [&] {
        einsum("abcde,fghij,abcdefghij->", {pairs, pairs, a});
      },
      "operand 2");
}

TEST(ContractionTest, Throws) {
  const Tensor a = ones({2, 3}), batch = ones({2, 3, 4});
  expect_throws<ShapeError>([&] { bmm(a, batch); }, "bmm: both sides must be (B, rows, columns)");
  expect_throws<ShapeError>([&] { bmm(batch, ones({3, 4, 2})); }, "with one B; got (2, 3, 4)");
  expect_throws<ShapeError>([&] { outer(a, a); }, "outer: both sides must have one axis");
  expect_throws<ShapeError>([&] { tensordot(a, a, {0}, {1}); },
                            "paired axes must have the same extents; got axes (0,) of (2, 3)");
  expect_throws<ShapeError>([&] { tensordot(a, a, {0, 0}, {0, 0}); }, "axes must be distinct");
  expect_throws<ShapeError>([&] { tensordot(a, batch, 3); }, "must have at least 3 axes");
  expect_throws<ValueError>([&] { tensordot(a, a, -1); }, "must not be negative; got -1");
}

}  // namespace
}  // namespace ringrad
