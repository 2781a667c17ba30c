// Random tensors from Philox4x32-10 (philox.h), which is a pure function of (seed, counter). So a
// generator's whole state is two integers, and element i of a tensor can be computed without the
// others.
//
//     counters          offset, offset + 1, ...; each gives four 32-bit words
//     element i         uses word i % 4 of counter offset + i / 4
//     float64 element   uses the two words 2 i and 2 i + 1, counted in the same way
//     normal draws      come in pairs: elements 2 k and 2 k + 1 are made from the words of both
//
// Elements are counted in row-major order, so strides do not change the values. The words become
// floating-point numbers by exact and correctly rounded operations in a fixed order, including the
// logarithm and the sine, so every machine draws the same bits.

#pragma once

#include <cstdint>
#include <memory>

#include "ringrad/core/tensor.h"

namespace ringrad {

class Generator;

namespace detail {

/// The calling thread's generator. Its owners may outlive the thread.
const std::shared_ptr<Generator>& thread_generator();

/// Sees the draws of the calling thread's generators, for code that must draw the same numbers
/// again.
class DrawWatch {
 public:
  virtual ~DrawWatch() = default;
  /// Generator::reserve() calls this instead of advance(), and returns the result.
  virtual std::uint64_t reserve(Generator& generator, std::uint64_t num_words) = 0;
};

inline thread_local DrawWatch* draw_watch = nullptr;

}  // namespace detail

/// A position in one stream of random numbers. Copy it to replay from here. Not for concurrent use.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) : seed_(seed) {}

  std::uint64_t seed() const { return seed_; }
  /// The next unused counter; with the seed it is the whole state.
  std::uint64_t offset() const { return offset_; }
  void set_offset(std::uint64_t offset) { offset_ = offset; }

  /// Reserves counters for `num_words` words and returns the first.
  std::uint64_t reserve(std::uint64_t num_words) {
    if (detail::draw_watch) [[unlikely]]
      return detail::draw_watch->reserve(*this, num_words);
    return advance(num_words);
  }

  /// reserve() without a call of the DrawWatch.
  std::uint64_t advance(std::uint64_t num_words) {
    const std::uint64_t first = offset_;
    offset_ += (num_words + 3) / 4;
    return first;
  }

  /// A number below `bound`; all are equally likely. REQUIRES: bound > 0
  std::uint64_t below(std::uint64_t bound);

 private:
  std::uint64_t seed_;
  std::uint64_t offset_ = 0;
};

/// The calling thread's generator, seeded with 0 until manual_seed. So replicas on several threads
/// start with the same numbers.
Generator& default_generator();
/// Seeds the calling thread's generator.
void manual_seed(std::uint64_t seed);

// The functions with a trailing underscore write in place, unrecorded, under the checks of
// Tensor::check_writable(): they throw AutogradError for a tensor that requires a gradient while
// operations are recorded, and ValueError if two of its elements share one place in memory.

/// Fills x, of a floating dtype and any strides, with independent draws from [low, high).
/// Throws: DTypeError unless floating; ValueError unless low <= high and both are finite in x's
/// dtype, as well as high - low (for 16-bit dtypes: in float32)
void uniform_(const Tensor& x, double low, double high, Generator& generator = default_generator(),
              Where where = Where::current());

/// Normal draws by the Box-Muller transform. Throws DTypeError unless floating; ValueError for a
/// negative deviation, and unless both numbers are finite in x's dtype.
void normal_(const Tensor& x, double mean, double deviation,
             Generator& generator = default_generator(), Where where = Where::current());

/// Waiting times: draws with density rate e^(-rate x) for x > 0. Throws DTypeError unless floating;
/// ValueError unless rate > 0 (in float32, for 16-bit dtypes).
void exponential_(const Tensor& x, double rate = 1, Generator& generator = default_generator(),
                  Where where = Where::current());

/// 1 with the given probability, else 0; any dtype. Throws ValueError unless 0 <= probability <= 1.
void bernoulli_(const Tensor& x, double probability, Generator& generator = default_generator(),
                Where where = Where::current());

/// Uniform in [0, 1).
Tensor rand(const Shape& shape, const Options& options = {},
            Generator& generator = default_generator(), Where where = Where::current());
/// Standard normal.
Tensor randn(const Shape& shape, const Options& options = {},
             Generator& generator = default_generator(), Where where = Where::current());
/// Uniform in [low, high), as uniform_().
Tensor uniform(double low, double high, const Shape& shape, const Options& options = {},
               Generator& generator = default_generator(), Where where = Where::current());
/// Normal with this mean and deviation, as normal_().
Tensor normal(double mean, double deviation, const Shape& shape, const Options& options = {},
              Generator& generator = default_generator(), Where where = Where::current());
/// Uniform in [0, 1), with x's shape, dtype, device and order of axes.
Tensor rand_like(const Tensor& x, Generator& generator = default_generator(),
                 Where where = Where::current());
/// Standard normal, with x's shape, dtype, device and order of axes.
Tensor randn_like(const Tensor& x, Generator& generator = default_generator(),
                  Where where = Where::current());
/// int64 in [low, high). Throws ValueError unless low < high.
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape,
               Generator& generator = default_generator(), Where where = Where::current());
/// The numbers 0 ... n - 1 as int64 in random order, each order equally likely.
Tensor randperm(std::int64_t n, Generator& generator = default_generator(),
                Where where = Where::current());

}  // namespace ringrad
