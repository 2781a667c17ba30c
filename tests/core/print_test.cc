#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>

#include "ringrad/core/tensor.h"
#include "ringrad/core/view.h"

namespace ringrad {
namespace {

std::string printed(const Tensor& x) { return concat(x); }

TEST(PrintTest, AlignsColumns) {
  EXPECT_EQ(printed(tensor({{1, 2.5}, {3, 4}})),
            "tensor([[1.0000, 2.5000],\n"
            "        [3.0000, 4.0000]])");
  EXPECT_EQ(printed(tensor({{-1.5, 100.25}, {3, 0}})),
            "tensor([[ -1.5000, 100.2500],\n"
            "        [  3.0000,   0.0000]])");
}

TEST(PrintTest, WholeNumbersHaveNoDecimals) {
  EXPECT_EQ(printed(tensor({1., -2., 3000.})), "tensor([   1.,   -2., 3000.])");
  EXPECT_EQ(printed(tensor({0., 0.})), "tensor([0., 0.])");
}

TEST(PrintTest, LargeAndSmallNumbersAreScientific) {
  EXPECT_EQ(printed(tensor({1e-5f, -1.f})), "tensor([ 1.0000e-05, -1.0000e+00])");
  EXPECT_EQ(printed(tensor({1e8f, 2.f})), "tensor([1.0000e+08, 2.0000e+00])");
  EXPECT_EQ(printed(tensor({99999992.f, 0.f})), "tensor([99999992.,        0.])");
}

TEST(PrintTest, InfinitiesAndNansDoNotDecideTheFormat) {
  EXPECT_EQ(printed(tensor({1, NAN, -INFINITY})), "tensor([  1.,  nan, -inf])");
  EXPECT_EQ(printed(tensor({0.5, INFINITY})), "tensor([0.5000,    inf])");
  EXPECT_EQ(printed(tensor({-NAN})), "tensor([nan])");
}

TEST(PrintTest, ScalarsHaveNoBrackets) {
  EXPECT_EQ(printed(scalar_tensor(3.5)), "tensor(3.5000)");
  EXPECT_EQ(printed(scalar_tensor(3)), "tensor(3.)");
  EXPECT_EQ(printed(scalar_tensor(-3, {.dtype = DType::int64})), "tensor(-3)");
  EXPECT_EQ(printed(scalar_tensor(true, {.dtype = DType::bool_})), "tensor(True)");
}

TEST(PrintTest, IntegersAndTruthValuesNeedNoDType) {
  EXPECT_EQ(printed(arange(8, 11)), "tensor([ 8,  9, 10])");
  const bool values[] = {true, false};
  EXPECT_EQ(printed(from_values<bool>(values, {2})), "tensor([ True, False])");
}

TEST(PrintTest, SuffixesSayWhatIsNotObvious) {
  EXPECT_EQ(printed(ones({1}, {.dtype = DType::float64})), "tensor([1.], dtype=float64)");
  EXPECT_EQ(printed(ones({1}, {.dtype = DType::bfloat16})), "tensor([1.], dtype=bfloat16)");
  EXPECT_EQ(printed(ones({1}, {.dtype = DType::int32})), "tensor([1], dtype=int32)");
  EXPECT_EQ(printed(ones({1}, {.dtype = DType::uint8})), "tensor([1], dtype=uint8)");
  EXPECT_EQ(printed(ones({1}, {.device = "cpu:1"})), "tensor([1.], device=cpu:1)");
  EXPECT_EQ(printed(ones({1}, {.requires_grad = true})), "tensor([1.], requires_grad=True)");
  EXPECT_EQ(printed(ones({1}, {.dtype = DType::float64, .device = "cpu:2", .requires_grad = true})),
            "tensor([1.], device=cpu:2, dtype=float64, requires_grad=True)");
}

TEST(PrintTest, WithoutElementsTheShapeIsShown) {
  EXPECT_EQ(printed(zeros({0})), "tensor([])");
  EXPECT_EQ(printed(zeros({2, 0})), "tensor([], shape=(2, 0))");
  EXPECT_EQ(printed(arange(0)), "tensor([], dtype=int64)");
  EXPECT_EQ(printed(Tensor()), "tensor(undefined)");
}

TEST(PrintTest, MatricesAreSetApartByAnEmptyLine) {
  EXPECT_EQ(printed(view::reshape(arange(8), {2, 2, 2})),
            "tensor([[[0, 1],\n"
            "         [2, 3]],\n"
            "\n"
            "        [[4, 5],\n"
            "         [6, 7]]])");
}

TEST(PrintTest, ReadsViewsThroughTheirStrides) {
  const Tensor x = view::reshape(arange(6), {2, 3});
  EXPECT_EQ(printed(view::transpose(x, 0, 1)),
            "tensor([[0, 3],\n"
            "        [1, 4],\n"
            "        [2, 5]])");
  EXPECT_EQ(printed(view::slice(view::select(x, 0, 1), 0, 0, 3, 2)), "tensor([3, 5])");
}

TEST(PrintTest, LongRowsBreakAtEightyColumns) {
  EXPECT_EQ(printed(arange(100, 120)),
            "tensor([100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113,\n"
            "        114, 115, 116, 117, 118, 119])");
}

TEST(PrintTest, ElementsStayWithinEightyColumns) {
  for (int dims = 1; dims <= 4; ++dims)
    for (std::int64_t value = 1; value < 1'000'000'000; value *= 10) {
      Shape shape = Shape::filled(dims, 1);
      shape[dims - 1] = 100;
      std::istringstream text(printed(full(shape, value, {.dtype = DType::int64})));
      for (std::string line; std::getline(text, line);)
        ASSERT_LE(line.find_last_not_of("])"), 79u) << line;
    }
}

TEST(PrintTest, LongTensorsAreSummarised) {
  EXPECT_EQ(printed(arange(1001)), "tensor([   0,    1,    2, ...,  998,  999, 1000])");
  EXPECT_EQ(printed(view::reshape(arange(1024), {32, 32})),
            "tensor([[   0,    1,    2, ...,   29,   30,   31],\n"
            "        [  32,   33,   34, ...,   61,   62,   63],\n"
            "        [  64,   65,   66, ...,   93,   94,   95],\n"
            "        ...,\n"
            "        [ 928,  929,  930, ...,  957,  958,  959],\n"
            "        [ 960,  961,  962, ...,  989,  990,  991],\n"
            "        [ 992,  993,  994, ..., 1021, 1022, 1023]])");
  EXPECT_EQ(printed(view::reshape(arange(1002), {501, 2})),
            "tensor([[   0,    1],\n"
            "        [   2,    3],\n"
            "        [   4,    5],\n"
            "        ...,\n"
            "        [ 996,  997],\n"
            "        [ 998,  999],\n"
            "        [1000, 1001]])");
}

TEST(PrintTest, AxesThatWouldLoseNothingAreShownInFull) {
  EXPECT_EQ(printed(zeros({6, 200}, {.dtype = DType::int64})),
            "tensor([[0, 0, 0, ..., 0, 0, 0],\n"
            "        [0, 0, 0, ..., 0, 0, 0],\n"
            "        [0, 0, 0, ..., 0, 0, 0],\n"
            "        [0, 0, 0, ..., 0, 0, 0],\n"
            "        [0, 0, 0, ..., 0, 0, 0],\n"
            "        [0, 0, 0, ..., 0, 0, 0]])");
}

TEST(PrintTest, TheWidthIsThatOfWhatIsShown) {
  const Tensor x = full({2000}, 1, {.dtype = DType::int64});
  x.data<std::int64_t>()[1000] = 123456;
  EXPECT_EQ(printed(x), "tensor([1, 1, 1, ..., 1, 1, 1])");
}

TEST(PrintTest, AThousandElementsAreShownInFull) {
  const std::string text = printed(arange(1000));
  EXPECT_EQ(text.find("..."), std::string::npos);
  EXPECT_NE(text.find("500"), std::string::npos);
}

}  // namespace
}  // namespace ringrad
