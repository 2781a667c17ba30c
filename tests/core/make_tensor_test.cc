#include "ringrad/core/make_tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "ringrad/core/view.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;

TEST(FromValuesTest, CopiesInRowMajorOrder) {
  std::vector<std::int64_t> values{1, 2, 3, 4, 5, 6};
  const Tensor x = from_values<std::int64_t>(values, {2, 3});
  values[0] = 100;
  EXPECT_EQ(x.dtype(), DType::int64);
  expect_close(x, {1, 2, 3, 4, 5, 6});
  expect_throws<ShapeError>(
      [&] {
        from_values<std::int64_t>(values, {2, 2});
      },
      "from_values: the shape must hold the values; got (2, 2) and 6 values");
}

TEST(FromValuesTest, NestedBracesMakeRows) {
  const Tensor x = tensor({{1, 2.5}, {3, 4}, {5, 6}});
  EXPECT_EQ(x.shape(), (Shape{3, 2}));
  EXPECT_EQ(x.dtype(), DType::float32);
  expect_close(x, {1, 2.5, 3, 4, 5, 6});
  EXPECT_EQ(tensor({1., 2., 3.}).shape(), (Shape{3}));
  expect_throws<ShapeError>(
      [] {
        tensor({{1.f, 2.f}, {3.f}});
      },
      "tensor: rows must be equally long; got 2 and 1");
}

TEST(FromValuesTest, TheNumbersInBracesDecideTheDType) {
  EXPECT_EQ(tensor({0, 1}).dtype(), DType::int64);
  EXPECT_EQ(tensor({true, false}).dtype(), DType::bool_);
  EXPECT_EQ(tensor({true, 2}).dtype(), DType::int64);
  EXPECT_EQ(tensor({1.5f}).dtype(), DType::float32);
  EXPECT_EQ(tensor({1, 2.5}).dtype(), DType::float32);
  EXPECT_EQ(tensor({}).dtype(), DType::float32);
  const std::int64_t big = (std::int64_t{1} << 53) + 1;
  EXPECT_EQ(tensor({big}).item<std::int64_t>(), big);
  EXPECT_EQ(tensor({1, 2}, DType::float64).dtype(), DType::float64);
  EXPECT_EQ(tensor({0.1}, DType::float64).item<double>(), 0.1);
  expect_close(tensor({{0, 2}, {3, 0}}, DType::bool_), {0, 1, 1, 0});
}

TEST(FromValuesTest, BracesNestToAnyDepth) {
  EXPECT_EQ(tensor(3).shape(), Shape{});
  EXPECT_EQ(tensor({}).shape(), (Shape{0}));
  EXPECT_EQ(tensor({{}, {}}).shape(), (Shape{2, 0}));
  EXPECT_EQ(tensor({{{1}}}).shape(), (Shape{1, 1, 1}));
  const Tensor x = tensor({{{1, 2}, {3, 4}, {5, 6}}, {{7, 8}, {9, 10}, {11, 12}}});
  EXPECT_EQ(x.shape(), (Shape{2, 3, 2}));
  expect_close(x, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  EXPECT_EQ(tensor({{{{{{{{1}}}}}}}}).dims(), 8);
  expect_throws<ShapeError>([] { tensor({{{{{{{{{1}}}}}}}}}); },
                            "tensor: lists must be nested at most 8 deep");
  expect_throws<ShapeError>(
      [] {
        tensor({{{1, 2}}, {{3}}});
      },
      "tensor: rows must be equally long; got 2 and 1");
  for (const Values& both : {Values{1, {2}}, Values{{1}, 2}, Values{{1}, {{2}}}})
    expect_throws<ShapeError>([&] { tensor(both); },
                              "tensor: a list must hold either numbers or lists");
}

TEST(FromValuesTest, AVectorKeepsItsElementType) {
  const Tensor x = tensor(std::vector<double>{0.1, 0.2});
  EXPECT_EQ(x.dtype(), DType::float64);
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{0.1, 0.2}));
  EXPECT_EQ(tensor(std::vector<std::int64_t>{1, 2, 3}).dtype(), DType::int64);
  EXPECT_EQ(tensor(std::vector<int>{1}).dtype(), DType::int32);
  EXPECT_EQ(tensor(std::vector<float>()).shape(), (Shape{0}));
  const std::vector<bool> truths{true, false, true};
  EXPECT_EQ(tensor(truths).to_vector<bool>(), truths);
}

TEST(ArangeTest, CountsFromStartToEnd) {
  EXPECT_EQ(arange(3).dtype(), DType::int64);
  expect_close(arange(4), {0, 1, 2, 3});
  expect_close(arange(2, 9, 3), {2, 5, 8});
  expect_close(arange(2, 8, 3), {2, 5});
  expect_close(arange(5, 0, -2), {5, 3, 1});
  expect_close(arange(0, 1, 0.25), {0, 0.25, 0.5, 0.75});
  EXPECT_EQ(arange(0, 1, 0.25).dtype(), DType::float32);
  EXPECT_EQ(arange(0, 1.1, 0.1).numel(), 11);
  EXPECT_EQ(arange(3, 3).numel(), 0);
}

TEST(ArangeTest, IsExactBeyondTheMantissaOfDouble) {
  constexpr std::int64_t kBig = (std::int64_t{1} << 60) + 1;
  EXPECT_EQ(arange(kBig, kBig + 3).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{kBig, kBig + 1, kBig + 2}));
}

TEST(ArangeTest, RefusesStepsThatNeverArrive) {
  expect_throws<ValueError>(
      [] { arange(5, 3); },
      "arange: steps must lead from start to end; got start 5, end 3 and step 1");
  expect_throws<ValueError>([] { arange(0, 3, 0); }, "arange: steps must lead");
  expect_throws<ValueError>([] { arange(0, 3, -1); }, "arange: steps must lead");
  expect_throws<ValueError>([] { arange(0, INFINITY, 1); }, "arange: steps must lead");
  expect_throws<ValueError>([] { arange(0, NAN, 1); }, "arange: steps must lead");
}

TEST(LinspaceTest, ReachesBothEnds) {
  expect_close(linspace(0, 1, 5), {0, 0.25, 0.5, 0.75, 1});
  expect_close(linspace(3, -3, 3), {3, 0, -3});
  expect_close(linspace(2, 7, 1), {2});
  EXPECT_EQ(linspace(2, 7, 0).shape(), Shape{0});
  expect_close(linspace(0, 5, 3, {.dtype = DType::int32}), {0, 2, 5});
  EXPECT_EQ(linspace(-0.1, 0.7, 4, {.dtype = DType::float64}).to_vector<double>()[3], 0.7);
  expect_throws<ValueError>([] { linspace(0, 1, -1); },
                            "linspace: steps must not be negative; got -1");
}

TEST(LinspaceTest, LogspaceHasItsPowers) {
  expect_close(logspace(-1, 2, 4), {0.1, 1, 10, 100});
  expect_close(logspace(0, 3, 4, 2, {.dtype = DType::int64}), {1, 2, 4, 8});
}

TEST(LinspaceTest, RefusesNumbersThatTheDtypeCannotHold) {
  expect_throws<ValueError>([] { linspace(0, 300, 4, {.dtype = DType::uint8}); },
                            "linspace: the number must fit the tensor's dtype; got 300 and uint8");
  expect_throws<ValueError>([] { linspace(-1, 1, 3, {.dtype = DType::uint8}); }, "got -1 and");
  expect_throws<ValueError>([] { linspace(0, NAN, 3, {.dtype = DType::int64}); }, "got nan and");
  expect_throws<ValueError>([] { logspace(0, 30, 3, 10, {.dtype = DType::int64}); },
                            "logspace: the number must fit");
  expect_throws<ValueError>([] { linspace(0, 1e10, 2, {.dtype = DType::int32}); },
                            "got 1e+10 and int32");
  expect_close(linspace(-1e308, 1e308, 3, {.dtype = DType::float64}), {-1e308, 0, 1e308});
  expect_close(linspace(1, 0, 3, {.dtype = DType::bool_}), {1, 1, 0});
}

TEST(ArangeTest, StepsMayBeLongerThanHalfOfInt64) {
  constexpr std::int64_t kStep = 6'000'000'000'000'000'000;
  EXPECT_EQ(arange(-9'000'000'000'000'000'000, 9'000'000'000'000'000'000, kStep)
                .to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{-9'000'000'000'000'000'000, -3'000'000'000'000'000'000,
                                       3'000'000'000'000'000'000}));
}

TEST(FromMemoryTest, UsesTheCallersMemoryAndKeepsItAlive) {
  auto memory = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5, 6});
  const std::weak_ptr<std::vector<float>> watch = memory;
  Tensor x = from_memory(memory->data(), {2, 3}, {}, memory);
  (*memory)[4] = 50;
  memory.reset();
  Tensor row = view::select(x, 0, 1);
  x = Tensor();
  EXPECT_FALSE(watch.expired());
  expect_close(row, {4, 50, 6});
  row = Tensor();
  EXPECT_TRUE(watch.expired());
}

TEST(FromMemoryTest, RefusesMemoryBesideItsElements) {
  alignas(8) std::byte bytes[24] = {};
  const auto at = [&](int offset, DType dtype) {
    return from_memory(bytes + offset, {2}, {.dtype = dtype}, nullptr);
  };
  expect_throws<ValueError>([&] { at(4, DType::float64); },
                            "from_memory: the memory must be aligned to its elements of 8 bytes; "
                            "got an address at byte 4 of one");
  expect_throws<ValueError>([&] { at(1, DType::float16); }, "of 2 bytes");
  expect_close(at(4, DType::float32), {0, 0});
  expect_close(at(3, DType::uint8), {0, 0});
}

TEST(FromMemoryTest, TruthValuesOfOthersAreChecked) {
  std::uint8_t bytes[] = {1, 0, 1, 255};
  const Tensor x = from_memory(bytes, {2, 2}, {.dtype = DType::bool_}, nullptr);
  expect_throws<DataError>([&] { check_truth_values("load", x, Where::current()); },
                           "load: truth values must be the bytes 0 and 1; got 255");
  expect_throws<DataError>(
      [&] { check_truth_values("load", view::transpose(x, 0, 1), Where::current()); }, "got 255");
  check_truth_values("load", view::select(x, 0, 0), Where::current());
}

TEST(FromMemoryTest, ReadsChannelsLast) {
  float values[] = {1, 2, 3, 4, 5, 6, 7, 8};  // (H, W) pixels of two channels each
  const Tensor x = from_memory(values, {1, 2, 2, 2}, {.layout = Layout::channels_last}, nullptr);
  expect_close(x, {1, 3, 5, 7, 2, 4, 6, 8});
}

}  // namespace
}  // namespace ringrad
