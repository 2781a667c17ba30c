#include "ringrad/tests/testing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>
#include <utility>

#include "ringrad/core/transfer.h"
#include "ringrad/core/view.h"

namespace ringrad::testing {
namespace {

void fail(const std::string& message, Where where) {
  ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line())) << message;
}

// The index of the n-th element in row-major order.
Shape index_of(std::int64_t n, const Shape& shape) {
  Shape index = shape;
  for (int axis = shape.size() - 1; axis >= 0; --axis) {
    index[axis] = n % shape[axis];
    n /= shape[axis];
  }
  return index;
}

struct Mismatches {
  std::size_t count = 0, first = 0, worst = 0;
  double worst_excess = 0;

  void add(std::size_t i, double excess) {
    if (count++ == 0) first = i;
    if (excess > worst_excess || std::isnan(excess)) {
      worst = i;
      worst_excess = excess;
    }
  }
};

void compare(const Tensor& actual, const std::vector<double>& expected, double slack, Where where) {
  const auto values = actual.to_vector<double>();
  const double unit = slack / (size_bytes(actual.dtype()) == 2 ? 8 : 1) * epsilon(actual.dtype());
  Mismatches mismatches;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double a = values[i], e = expected[i];
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    const double difference = std::abs(a - e);
    const double allowed = unit * (1 + std::abs(e));
    // An infinite expectation would allow everything.
    if (std::isfinite(e) && difference <= allowed) continue;
    mismatches.add(i, difference / allowed);
  }
  if (mismatches.count == 0) return;
  std::ostringstream out;
  out.precision(9);
  const auto describe = [&](std::size_t i) {
    out << index_of(static_cast<std::int64_t>(i), actual.shape()) << ": got " << values[i]
        << ", expected " << expected[i] << ", allowed difference "
        << unit * (1 + std::abs(expected[i]));
  };
  out << mismatches.count << " of " << expected.size() << " elements of a " << actual.dtype()
      << " tensor " << actual.shape() << " differ\n  first at ";
  describe(mismatches.first);
  if (mismatches.worst != mismatches.first) {
    out << "\n  worst at ";
    describe(mismatches.worst);
  }
  fail(out.str(), where);
}

Tensor contiguous_on_host(const Tensor& x) {
  const Tensor host = to_host(x);
  Tensor copy = empty(x.shape(), {.dtype = x.dtype(), .device = host.device()});
  dispatch_dtype(x.dtype(), [&]<class T>() {
    T* to = copy.data<T>();
    const T* from = host.data<T>();
    for_each_offset(x.shape(), x.strides(), [&](std::int64_t offset) { *to++ = from[offset]; });
  });
  return copy;
}

}  // namespace

Device host_device() { return default_device().is_cpu() ? default_device() : Device(); }

double epsilon(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return 0x1p-23;
    case DType::float64:
      return 0x1p-52;
    case DType::float16:
      return 0x1p-10;
    case DType::bfloat16:
      return 0x1p-7;
    default:
      return 0;
  }
}

void expect_close(const Tensor& actual, const Tensor& expected, double slack, Where where) {
  if (actual.shape() != expected.shape())
    return fail(concat("shapes differ: got ", actual.shape(), ", expected ", expected.shape()),
                where);
  compare(actual, expected.to_vector<double>(), slack, where);
}

void expect_close(const Tensor& actual, const std::vector<double>& expected, double slack,
                  Where where) {
  if (actual.numel() != static_cast<std::int64_t>(expected.size()))
    return fail(concat("got ", actual.numel(), " elements, expected ", expected.size()), where);
  compare(actual, expected, slack, where);
}

void expect_close(const Tensor& actual, std::initializer_list<double> expected, double slack,
                  Where where) {
  expect_close(actual, std::vector<double>(expected), slack, where);
}

void expect_same_bits(const Tensor& actual, const Tensor& expected, Where where) {
  if (actual.shape() != expected.shape() || actual.dtype() != expected.dtype())
    return fail(concat("got ", actual.dtype(), ' ', actual.shape(), ", expected ", expected.dtype(),
                       ' ', expected.shape()),
                where);
  const Tensor a = contiguous_on_host(actual), e = contiguous_on_host(expected);
  const std::size_t bytes = size_bytes(a.dtype());
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const auto at = static_cast<std::size_t>(i) * bytes;
    if (std::memcmp(a.raw_data() + at, e.raw_data() + at, bytes) == 0) continue;
    const auto n = static_cast<std::size_t>(i);
    std::ostringstream out;
    out.precision(17);
    out << "bits differ first at " << index_of(i, a.shape()) << " of " << a.dtype() << ' '
        << a.shape() << ": got " << a.to_vector<double>()[n] << ", expected "
        << e.to_vector<double>()[n];
    return fail(out.str(), where);
  }
}

void check_error(const Error& error, std::string_view text, Where where) {
  const std::string_view message = error.what();
  if (message.find(text) == std::string_view::npos)
    fail(concat("the message is not as expected\n  got       ", message, "\n  expected  ", text),
         where);
  if (std::string_view(error.where().file_name()) != where.file_name())
    fail(concat("the error blames ", to_string(error.where()), " and not its caller: ", message),
         where);
}

Tensor contiguous_copy(const Tensor& x) { return to_device(contiguous_on_host(x), x.device()); }

Random::Random(std::uint64_t seed, Where where)
    : generator_(seed),
      trace_(where.file_name(), static_cast<int>(where.line()), concat("seed ", seed)) {}

std::int64_t Random::integer(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(generator_.below(static_cast<std::uint64_t>(high - low)));
}

double Random::real(double low, double high) {
  return low +
         (high - low) * 0x1p-53 * static_cast<double>(generator_.below(std::uint64_t{1} << 53));
}

Shape Random::shape(int max_dims, std::int64_t max_extent, std::int64_t min_extent) {
  Shape shape = Shape::filled(static_cast<int>(integer(0, max_dims + 1)), 0);
  for (std::int64_t& extent : shape) extent = integer(min_extent, max_extent + 1);
  return shape;
}

Tensor Random::tensor(const Shape& shape, DType dtype) {
  if (is_floating(dtype)) return tensor(shape, -2, 2, dtype);
  const Tensor x = empty(shape, {.dtype = dtype, .device = host_device()});
  const auto [low, high] = dtype == DType::bool_   ? std::pair(0, 2)
                           : dtype == DType::uint8 ? std::pair(0, 20)
                                                   : std::pair(-10, 10);
  dispatch_dtype(dtype, [&]<class T>() {
    std::generate_n(x.data<T>(), x.numel(), [&, low = low, high = high] {
      return Scalar(integer(low, high)).template to<T>();
    });
  });
  return to_device(x, default_device());
}

Tensor Random::tensor(const Shape& shape, double low, double high, DType dtype) {
  Tensor x = empty(shape, {.dtype = dtype});
  uniform_(x, low, high, generator_);
  return x;
}

Tensor Random::strided(const Tensor& x) {
  // Lays out memory for the axes in random order, each with some room after its elements.
  const auto order = randperm(x.dims(), generator_).to_vector<std::int64_t>();
  Strides strides = x.strides();
  std::int64_t step = integer(1, 3);
  for (const std::int64_t axis : order) {
    strides[static_cast<int>(axis)] = step;
    step *= x.shape()[static_cast<int>(axis)] + integer(0, 3);
  }
  const std::int64_t offset = integer(0, 4);
  const Tensor values = contiguous_on_host(x);
  const Tensor memory = zeros({offset + std::max<std::int64_t>(step, 1)},
                              {.dtype = x.dtype(), .device = values.device()});
  dispatch_dtype(x.dtype(), [&]<class T>() {
    const T* from = values.data<T>();
    T* to = memory.data<T>() + offset;
    for_each_offset(x.shape(), strides, [&](std::int64_t at) { to[at] = *from++; });
  });
  return view::as_strided(to_device(memory, x.device()), x.shape(), strides, offset);
}

Tensor Random::view_of(const Tensor& x) {
  Tensor y = view::alias(x);
  for (std::int64_t left = integer(1, 4); left > 0; --left) {
    const int axis = y.dims() > 0 ? static_cast<int>(integer(0, y.dims())) : 0;
    const std::int64_t choice = integer(0, 5);
    if (choice == 0 && y.dims() < kMaxDims) {  // a new axis of up to three repeats
      Tensor wider = view::unsqueeze(y, axis);
      Shape shape = wider.shape();
      shape[axis] = integer(1, 4);
      y = view::expand(wider, shape);
    } else if (y.dims() == 0) {
      continue;
    } else if (choice == 1) {
      y = view::transpose(y, axis, integer(0, y.dims()));
    } else if (choice == 2) {
      y = view::slice(y, axis, integer(0, y.shape()[axis]), y.shape()[axis], integer(1, 4));
    } else if (choice == 3) {
      y = view::select(y, axis, integer(0, y.shape()[axis]));
    } else if (view::reshaped_strides(y, {y.numel()})) {
      y = view::reshape(y, {-1});
    }
  }
  return y;
}

}  // namespace ringrad::testing
