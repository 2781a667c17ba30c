#include "ringrad/parallel/comm/blocks/reduce_terms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "ringrad/tests/parallel/comm/collective_values.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::input_of;
using testing::reduced_tensor;

constexpr DType kCarriers[] = {DType::float32, DType::float64, DType::int32, DType::int64,
                               DType::uint8};

void reduce_into(std::span<const Tensor> terms, std::span<const Tensor> outs, ReduceOp op,
                 int divisor = 1) {
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> results;
  for (const Tensor& term : terms) sources.push_back(term.raw_data());
  for (const Tensor& out : outs) results.push_back(out.raw_data());
  reduce_terms(terms[0].dtype(), op, sources, results, terms[0].numel(), divisor);
}

// 41 elements: whole vectors, and a rest that is computed one by one.
TEST(ReduceTermsTest, ANanHasTheSameBitsWhicheverTermsItComesFrom) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::float32, DType::float64})
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product})
      for (const auto& [first, second] :
           {std::pair(nan, -nan), std::pair(-nan, nan), std::pair(-nan, 1.), std::pair(1., -nan)}) {
        const Tensor out = empty({41}, {.dtype = dtype});
        reduce_into(
            std::vector{full({41}, first, {.dtype = dtype}), full({41}, second, {.dtype = dtype})},
            std::vector{out}, op);
        expect_same_bits(out, full({41}, nan, {.dtype = dtype}));
      }
}

TEST(ReduceTermsTest, AgreesWithExactSumsForAnyNumberOfTermsAndOutputs) {
  for (DType dtype : kCarriers)
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max})
      for (int n : {1, 2, 3, 4, 5, 8})
        for (std::int64_t count : {1, 2047, 2048, 2049, 5000}) {  // around the block's length
          std::vector<Tensor> terms;
          for (int r = 0; r < n; ++r) terms.push_back(input_of(dtype, op, r, count));
          const std::vector<Tensor> outs = {empty({count}, {.dtype = dtype}),
                                            empty({count}, {.dtype = dtype})};
          reduce_into(terms, outs, op);
          for (const Tensor& out : outs) expect_same_bits(out, reduced_tensor(dtype, op, n, count));
        }
}

TEST(ReduceTermsTest, AnyTermMayBeTheOutput) {
  for (int n : {2, 3, 5})
    for (int place = 0; place < n; ++place) {
      std::vector<Tensor> terms;
      for (int r = 0; r < n; ++r) terms.push_back(input_of(DType::float32, ReduceOp::sum, r, 5000));
      const Tensor out = terms[place];
      reduce_into(terms, {&out, 1}, ReduceOp::sum);
      expect_same_bits(out, reduced_tensor(DType::float32, ReduceOp::sum, n, 5000));
    }
}

TEST(ReduceTermsTest, AddsInTheOrderListed) {
  const float big = 0x1p24f;  // big + 1 = big, but (1 + 1) + big = big + 2
  const Tensor one = full({3}, 1), huge = full({3}, big), out = empty({3});
  const std::vector<Tensor> small_first = {one, one, huge}, big_first = {huge, one, one};
  reduce_into(small_first, {&out, 1}, ReduceOp::sum);
  EXPECT_EQ(out.to_vector<float>(), std::vector<float>(3, big + 2));
  reduce_into(big_first, {&out, 1}, ReduceOp::sum);
  EXPECT_EQ(out.to_vector<float>(), std::vector<float>(3, big));
}

TEST(ReduceTermsTest, MeanDividesTheSumOnce) {
  const std::vector<Tensor> terms = {full({2100}, 1), full({2100}, 2), full({2100}, 4)};
  const Tensor out = empty({2100});
  reduce_into(terms, {&out, 1}, ReduceOp::mean, 3);
  EXPECT_EQ(out.to_vector<float>(), std::vector<float>(2100, 7.0f / 3.0f));
}

TEST(ReduceTermsTest, MinAndMaxKeepNanOnEitherSide) {
  const Tensor nan = full({20}, std::numeric_limits<double>::quiet_NaN()), one = ones({20});
  for (ReduceOp op : {ReduceOp::min, ReduceOp::max})
    for (const std::vector<Tensor>& terms : {std::vector{nan, one}, std::vector{one, nan}}) {
      const Tensor out = empty({20});
      reduce_into(terms, {&out, 1}, op);
      for (float value : out.to_vector<float>()) EXPECT_TRUE(std::isnan(value)) << op;
    }
}

TEST(ReduceTermsTest, CarriersKeepEveryValue) {
  for (DType dtype : testing::kAllDTypes) {
    const Tensor x = input_of(dtype, ReduceOp::sum, 1, 100);
    const Tensor carrier = empty({100}, {.dtype = carrier_dtype(dtype)});
    const Tensor back = empty_like(x);
    to_carrier(dtype, x.raw_data(), carrier.raw_data(), 100);
    EXPECT_EQ(carrier.to_vector<double>(), x.to_vector<double>());
    from_carrier(dtype, carrier.raw_data(), back.raw_data(), 100);
    expect_same_bits(back, x);
  }
}

}  // namespace
}  // namespace ringrad
