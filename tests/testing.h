// The shared tools of all tests: one notion of "close", one source of randomness, one way to expect
// an error.
//
//     |actual - expected|  <=  slack * epsilon * (1 + |expected|),     epsilon of actual's dtype
//
// Slack is a generous count of the roundings on the way to a result. The default suits a short
// formula; sums of n terms need about sqrt(n) times as much. The 16-bit dtypes get an eighth of the
// slack, because their arithmetic happens in float32 and rounds once at the end.
//
// With RINGRAD_TEST_DEVICE=cuda a program's tensors are made on a GPU, a simulated one by default:
// every test of an operator also runs that way (`devices` in tools/ringrad.bzl).
//
// Failures are reported at the caller's line, and name the seed of every Random alive.

#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/random/random.h"
#include "ringrad/core/tensor.h"

namespace ringrad::testing {

inline constexpr double kDefaultSlack = 16;

/// The distance from 1 to the next larger number of a floating dtype; 0 for the others, whose
/// values must be equal.
double epsilon(DType dtype);

/// Expects equal shapes and close values; NaN is close only to NaN, an infinity only to itself.
/// Dtypes may differ: the expected values are often of higher precision.
void expect_close(const Tensor& actual, const Tensor& expected, double slack = kDefaultSlack,
                  Where where = Where::current());

/// The same for plain numbers in row-major order, as many as `actual` has elements.
void expect_close(const Tensor& actual, const std::vector<double>& expected,
                  double slack = kDefaultSlack, Where where = Where::current());
void expect_close(const Tensor& actual, std::initializer_list<double> expected,
                  double slack = kDefaultSlack, Where where = Where::current());

/// Expects equal shapes, dtypes and bits of every element, so that -0 differs from 0; strides may
/// differ.
void expect_same_bits(const Tensor& actual, const Tensor& expected, Where where = Where::current());

/// body() must throw exactly an ErrorType whose message contains `text`, and blame a line of the
/// file that called this.
///
///     expect_throws<ShapeError>([&] { matmul(a, b); }, "inner dimensions must match; got (2, 3)");
template <class ErrorType, class Body>
void expect_throws(Body body, std::string_view text, Where where = Where::current());

/// The device for a tensor that a test fills by hand: the default device, or cpu:0 if that is a
/// GPU.
Device host_device();

/// A copy of x's values, contiguous.
Tensor contiguous_copy(const Tensor& x);

/// Random test data from a fixed seed, which every failure during its lifetime prints.
class Random {
 public:
  explicit Random(std::uint64_t seed, Where where = Where::current());

  Generator& generator() { return generator_; }
  /// In [low, high).
  std::int64_t integer(std::int64_t low, std::int64_t high);
  /// In [low, high).
  double real(double low, double high);
  bool chance(double probability) { return real(0, 1) < probability; }

  /// Up to max_dims axes, each with an extent in [min_extent, max_extent].
  Shape shape(int max_dims = 4, std::int64_t max_extent = 5, std::int64_t min_extent = 1);

  /// Any dtype: floats in [-2, 2), integers in [-10, 10), uint8 in [0, 20), both truth values.
  Tensor tensor(const Shape& shape, DType dtype = DType::float32);
  /// Floats in [low, high), for functions with a limited domain.
  Tensor tensor(const Shape& shape, double low, double high, DType dtype = DType::float32);

  /// A tensor equal to x whose elements lie elsewhere: axes permuted in memory, gaps between
  /// elements, an offset before them. An operator must give the same result for it as for x.
  Tensor strided(const Tensor& x);

  /// A few random views on top of each other: transposed, sliced with steps, selected, expanded,
  /// reshaped. Elements may repeat, and there is at least one.
  Tensor view_of(const Tensor& x);

 private:
  Generator generator_;
  ::testing::ScopedTrace trace_;
};

// Implementation details follow.

void check_error(const Error& error, std::string_view text, Where where);

template <class ErrorType, class Body>
void expect_throws(Body body, std::string_view text, Where where) {
  try {
    body();
    synchronize(default_device());  // a GPU reports errors only here
  } catch (const ErrorType& error) {
    EXPECT_EQ(typeid(error), typeid(ErrorType)) << "a more special error than expected";
    return check_error(error, text, where);
  } catch (const std::exception& error) {
    ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line()))
        << "threw another type of error: " << error.what();
    return;
  }
  ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line()))
      << "threw nothing; expected: " << text;
}

}  // namespace ringrad::testing
