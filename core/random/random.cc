#include "ringrad/core/random/random.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ringrad/core/base/shape.h"
#include "ringrad/core/capture.h"
#include "ringrad/core/dtype.h"
#include "ringrad/core/random/philox.h"
#include "ringrad/core/random/random_cuda.h"
#include "ringrad/core/random/random_draws.h"
#include "ringrad/core/simd.h"
#include "ringrad/core/transfer.h"

namespace ringrad {
namespace {

using namespace draws;

// Words are drawn in blocks that stay in the first-level cache until they are turned into numbers.
constexpr int kBlockCounters = 128;

template <class T, class Draw>
RINGRAD_CLONES void fill_block(std::uint64_t seed, std::uint64_t counter, T* out, Draw draw) {
  draw(words<kBlockCounters>(seed, counter), out);
}

template <class T, class Draw>
void fill_contiguous(T* out, std::int64_t count, std::uint64_t seed, std::uint64_t counter,
                     Draw draw) {
  constexpr int kElements = 4 * kBlockCounters / Draw::kWords;
  for (; count >= kElements; count -= kElements, out += kElements, counter += kBlockCounters)
    fill_block(seed, counter, out, draw);
  if (count == 0) return;
  std::array<T, kElements> rest;
  fill_block(seed, counter, rest.data(), draw);
  std::copy_n(rest.data(), count, out);
}

// Fills x in row-major order of its elements. Neither the values nor the counters depend on x's
// strides.
template <class T, class Draw>
void fill(const Tensor& x, Generator& generator, Draw draw, Where where) {
  const auto num_words = static_cast<std::uint64_t>(x.numel()) * Draw::kWords;
  if (x.device().is_cuda()) {
    const auto next = [&generator, num_words] { return generator.reserve(num_words); };
    const cuda::FirstCounter first =
        is_capturing() ? cuda::FirstCounter{0, replayed_value<std::uint64_t>(next)}
                       : cuda::FirstCounter{next(), nullptr};
    return cuda::fill_random<T>(x, generator.seed(), first, draw, where);
  }
  const std::uint64_t counter = generator.reserve(num_words);
  if (x.is_contiguous()) {
    fill_contiguous(x.data<T>(), x.numel(), generator.seed(), counter, draw);
  } else {
    const Tensor values = empty(x.shape(), {.dtype = x.dtype(), .device = x.device()}, where);
    const T* value = values.data<T>();
    fill_contiguous(values.data<T>(), x.numel(), generator.seed(), counter, draw);
    T* out = x.data<T>();
    for_each_offset(x.shape(), x.strides(), [&](std::int64_t offset) { out[offset] = *value++; });
  }
}

template <class T>
bool is_finite(MathType<T> number) {
  return std::isfinite(static_cast<MathType<T>>(T(number)));
}

// Fills x, which its caller may write to.
void fill_uniform(const Tensor& x, double low, double high, Generator& generator, Where where) {
  check_floating("uniform_", x, where);
  RINGRAD_CHECK(low <= high, ValueError, where, "uniform_: low must not exceed high; got ", low,
                " and ", high);
  dispatch_floating(x.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    const auto from = static_cast<Math>(low), to = static_cast<Math>(high);
    RINGRAD_CHECK(is_finite<T>(from) && is_finite<T>(to) && std::isfinite(to - from), ValueError,
                  where, "uniform_: low, high and high - low must be finite as ", dtype_of<Math>,
                  ", and low and high as ", x.dtype(), "; got ", low, " and ", high);
    fill<T>(x, generator, UniformDraw<T>{from, to - from, greatest_below<T>(to, from)}, where);
  });
}

void fill_normal(const Tensor& x, double mean, double deviation, Generator& generator,
                 Where where) {
  check_floating("normal_", x, where);
  RINGRAD_CHECK(deviation >= 0, ValueError, where, "normal_: deviation must not be negative; got ",
                deviation);
  dispatch_floating(x.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    const NormalDraw<T> draw{static_cast<Math>(mean), static_cast<Math>(deviation)};
    RINGRAD_CHECK(is_finite<T>(draw.mean) && is_finite<T>(draw.deviation), ValueError, where,
                  "normal_: mean and deviation must be finite as ", x.dtype(), "; got ", mean,
                  " and ", deviation);
    fill<T>(x, generator, draw, where);
  });
}

}  // namespace

std::uint64_t Generator::below(std::uint64_t bound) {
  // bound may not divide 2^64. Dropping the first 2^64 mod bound words leaves a multiple of bound.
  const std::uint64_t dropped = (0 - bound) % bound;
  while (true) {
    const auto words = philox(seed_, reserve(2));
    const std::uint64_t word = words[0] | std::uint64_t{words[1]} << 32;
    if (word >= dropped) return word % bound;
  }
}

const std::shared_ptr<Generator>& detail::thread_generator() {
  thread_local const auto generator = std::make_shared<Generator>();
  return generator;
}

Generator& default_generator() { return *detail::thread_generator(); }

void manual_seed(std::uint64_t seed) { default_generator() = Generator(seed); }

void uniform_(const Tensor& x, double low, double high, Generator& generator, Where where) {
  x.check_writable("uniform_", where);
  fill_uniform(x, low, high, generator, where);
  x.mark_changed(where);
}

void normal_(const Tensor& x, double mean, double deviation, Generator& generator, Where where) {
  x.check_writable("normal_", where);
  fill_normal(x, mean, deviation, generator, where);
  x.mark_changed(where);
}

void exponential_(const Tensor& x, double rate, Generator& generator, Where where) {
  x.check_writable("exponential_", where);
  check_floating("exponential_", x, where);
  dispatch_floating(x.dtype(), [&]<class T>() {
    const ExponentialDraw<T> draw{static_cast<MathType<T>>(rate)};
    RINGRAD_CHECK(draw.rate > 0, ValueError, where, "exponential_: rate must be positive as ",
                  math_dtype(x.dtype()), "; got ", rate);
    fill<T>(x, generator, draw, where);
  });
  x.mark_changed(where);
}

void bernoulli_(const Tensor& x, double probability, Generator& generator, Where where) {
  x.check_writable("bernoulli_", where);
  RINGRAD_CHECK(probability >= 0 && probability <= 1, ValueError, where,
                "bernoulli_: probability must be in [0, 1]; got ", probability);
  const auto hits =
      static_cast<std::uint64_t>(std::llround(probability * 0x1p32));  // of 2^32 words
  dispatch_dtype(x.dtype(), [&]<class T>() {
    const BernoulliDraw<T> draw{static_cast<std::uint32_t>(hits - (hits > 0)),
                                Scalar(hits > 0 ? 1 : 0).to<T>()};
    fill<T>(x, generator, draw, where);
  });
  x.mark_changed(where);
}

Tensor uniform(double low, double high, const Shape& shape, const Options& options,
               Generator& generator, Where where) {
  Tensor result = empty(shape, options, where);
  fill_uniform(result, low, high, generator, where);
  return result;
}

Tensor normal(double mean, double deviation, const Shape& shape, const Options& options,
              Generator& generator, Where where) {
  Tensor result = empty(shape, options, where);
  fill_normal(result, mean, deviation, generator, where);
  return result;
}

Tensor rand(const Shape& shape, const Options& options, Generator& generator, Where where) {
  return uniform(0, 1, shape, options, generator, where);
}

Tensor randn(const Shape& shape, const Options& options, Generator& generator, Where where) {
  return normal(0, 1, shape, options, generator, where);
}

Tensor rand_like(const Tensor& x, Generator& generator, Where where) {
  Tensor result = empty_like(x, where);
  uniform_(result, 0, 1, generator, where);
  return result;
}

Tensor randn_like(const Tensor& x, Generator& generator, Where where) {
  Tensor result = empty_like(x, where);
  normal_(result, 0, 1, generator, where);
  return result;
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, Generator& generator,
               Where where) {
  RINGRAD_CHECK(low < high, ValueError, where, "randint: low must be below high; got ", low,
                " and ", high);
  const Device target = default_device(), host = target.is_cpu() ? target : Device();
  const Tensor result = empty(shape, {.dtype = DType::int64, .device = host}, where);
  const auto base =
      static_cast<std::uint64_t>(low);  // unsigned, because high - low may exceed int64
  const std::uint64_t range = static_cast<std::uint64_t>(high) - base;
  std::generate_n(result.data<std::int64_t>(), result.numel(),
                  [&] { return static_cast<std::int64_t>(base + generator.below(range)); });
  return to_device(result, target, where);
}

// Fisher and Yates: each position in turn swaps with a random unsettled position, possibly itself.
Tensor randperm(std::int64_t n, Generator& generator, Where where) {
  RINGRAD_CHECK(n >= 0, ValueError, where, "randperm: n must not be negative; got ", n);
  const Device target = default_device(), host = target.is_cpu() ? target : Device();
  const DefaultDeviceGuard guard(host);
  const Tensor result = arange(n, where);
  auto* values = result.data<std::int64_t>();
  for (std::int64_t left = n; left > 1; --left)
    std::swap(values[left - 1], values[generator.below(static_cast<std::uint64_t>(left))]);
  return to_device(result, target, where);
}

}  // namespace ringrad
