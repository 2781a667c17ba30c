#include "ringrad/core/make_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "ringrad/core/check_fits.h"
#include "ringrad/core/fill_cuda.h"
#include "ringrad/core/tensor.h"
#include "ringrad/core/transfer.h"

namespace ringrad {
namespace {

Tensor make(const Shape& shape, const Strides& strides, DType dtype, Device device, Where where) {
  const auto bytes = static_cast<std::size_t>(shape.numel()) * size_bytes(dtype);
  return Tensor(make_ref<TensorImpl>(make_ref<Storage>(bytes, device, where), 0, shape, strides,
                                     dtype, where));
}

// At first a leaf is only a flag; the tape adds its record when the first operation uses it.
void set_leaf(const char* operation, const Tensor& tensor, const Options& options, Where where) {
  if (!options.requires_grad) return;
  check_floating(operation, options.dtype, where);
  tensor.impl()->requires_grad = true;
}

// The device for a tensor that the host fills: the default device if it is a CPU, else cpu:0.
Device host_device() { return default_device().is_cpu() ? default_device() : Device(); }

void check_layout(const char* operation, const Shape& shape, Layout layout, Where where) {
  RINGRAD_CHECK(layout == Layout::contiguous || shape.size() == 4, ShapeError, where, operation,
                ": channels_last needs 4 axes (B, C, H, W); got ", shape);
}

// Sets every element of a tensor that has no gaps.
void fill_dense(const Tensor& x, Scalar value, Where where) {
  dispatch_dtype(x.dtype(), [&]<class T>() {
    const T element = value.to<T>();
    if (x.device().is_cpu())
      std::fill_n(x.data<T>(), x.numel(), element);
    else
      cuda::fill_elements(x.raw_data(), x.device(), x.numel(), &element, sizeof element, where);
  });
}

// Appends the numbers in row-major order. Notes the lengths of the first lists of each depth in
// `shape`, and compares all others with them.
void flatten_values(const Values& values, int depth, Shape& shape, std::vector<Scalar>& numbers,
                    Where where) {
  const bool first = numbers.empty() && depth == shape.size();
  if (!values.is_list()) {
    RINGRAD_CHECK(depth == shape.size(), ShapeError, where,
                  "tensor: a list must hold either numbers or lists; got both at depth ", depth);
    numbers.push_back(values.number());
    return;
  }
  const auto length = static_cast<std::int64_t>(values.list().size());
  if (first) {
    RINGRAD_CHECK(depth < kMaxDims, ShapeError, where, "tensor: lists must be nested at most ",
                  kMaxDims, " deep; got more");
    shape.push_back(length);
  }
  RINGRAD_CHECK(depth < shape.size(), ShapeError, where,
                "tensor: a list must hold either numbers or lists; got both at depth ", depth);
  RINGRAD_CHECK(length == shape[depth], ShapeError, where,
                "tensor: rows must be equally long; got ", shape[depth], " and ", length);
  for (const Values& value : values.list()) flatten_values(value, depth + 1, shape, numbers, where);
}

// The dtype of the widest class of number in the lists, if they hold any.
std::optional<DType> natural_dtype(const Values& values) {
  if (!values.is_list()) {
    const DType dtype = values.number().dtype();
    return dtype == DType::float64 ? DType::float32 : dtype;
  }
  std::optional<DType> widest;
  for (const Values& value : values.list())
    if (const std::optional<DType> dtype = natural_dtype(value))
      widest = widest ? promote(*widest, *dtype) : *dtype;
  return widest;
}

}  // namespace

Tensor empty(const Shape& shape, const Options& options, Where where) {
  check_extents("empty", shape, size_bytes(options.dtype), where);
  check_layout("empty", shape, options.layout, where);
  Tensor result =
      make(shape, strides_for(shape, options.layout), options.dtype, options.device, where);
  set_leaf("empty", result, options, where);
  return result;
}

Tensor full(const Shape& shape, Scalar value, const Options& options, Where where) {
  check_fits("full", value, options.dtype, where);
  Tensor result = empty(shape, options, where);
  fill_dense(result, value, where);
  return result;
}

Tensor zeros(const Shape& shape, const Options& options, Where where) {
  if (!options.device.is_cpu()) return full(shape, 0, options, where);
  Tensor result = empty(shape, options, where);
  if (result.numel() > 0)
    std::memset(result.raw_data(), 0,
                static_cast<std::size_t>(result.numel()) * size_bytes(options.dtype));
  return result;
}

Tensor ones(const Shape& shape, const Options& options, Where where) {
  return full(shape, 1, options, where);
}

Tensor empty_like(const Tensor& x, DType dtype, Where where) {
  const bool keep_strides = x.is_contiguous() || is_dense(x.shape(), x.strides());
  return make(x.shape(), keep_strides ? x.strides() : strides_for(x.shape()), dtype, x.device(),
              where);
}

Tensor empty_like(const Tensor& x, Where where) { return empty_like(x, x.dtype(where), where); }

Tensor zeros_like(const Tensor& x, Where where) { return full_like(x, 0, where); }

Tensor ones_like(const Tensor& x, Where where) { return full_like(x, 1, where); }

Tensor full_like(const Tensor& x, Scalar value, Where where) {
  check_fits("full_like", value, x.dtype(where), where);
  Tensor result = empty_like(x, where);
  fill_dense(result, value, where);
  return result;
}

Tensor arange(Scalar start, Scalar end, Scalar step, Where where) {
  const bool floating = start.is_floating() || end.is_floating() || step.is_floating();
  // Whole numbers are converted exactly: long double holds every int64.
  const auto from = start.to<double>(), to = end.to<double>(), by = step.to<double>();
  const long double steps =
      floating
          ? std::ceil((to - from) / by)
          : std::ceil((end.to<long double>() - start.to<long double>()) / step.to<long double>());
  RINGRAD_CHECK(by != 0 && steps >= 0 && steps < 0x1p60L, ValueError, where,
                "arange: steps must lead from start to end; got start ", from, ", end ", to,
                " and step ", by);
  const auto count = static_cast<std::int64_t>(steps);
  const Tensor result = empty(
      {count}, {.dtype = floating ? DType::float32 : DType::int64, .device = host_device()}, where);
  for (std::int64_t i = 0; i < count; ++i) {
    if (floating)
      result.data<float>()[i] = static_cast<float>(from + static_cast<double>(i) * by);
    else
      result.data<std::int64_t>()[i] = static_cast<std::int64_t>(  // i * step may exceed int64
          static_cast<std::uint64_t>(start.to<std::int64_t>()) +
          static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(step.to<std::int64_t>()));
  }
  return to_device(result, default_device(), where);
}

Tensor arange(Scalar end, Where where) { return arange(0, end, 1, where); }

namespace {

// Element i is number(i), computed on the host.
template <class Number>
Tensor numbers(const char* operation, std::int64_t count, const Options& options, Where where,
               Number number) {
  RINGRAD_CHECK(count >= 0, ValueError, where, operation, ": steps must not be negative; got ",
                count);
  const Device device = options.device.is_cpu() ? options.device : Device();
  const Tensor host = empty({count}, {.dtype = options.dtype, .device = device}, where);
  dispatch_dtype(options.dtype, [&]<class T>() {
    T* data = host.data<T>();
    for (std::int64_t i = 0; i < count; ++i) {
      const Scalar value = number(i);
      if (!value.fits<T>()) check_fits(operation, value, options.dtype, where);  // throws
      data[i] = value.as<T>();
    }
  });
  const Tensor result = to_device(host, options.device, where);
  set_leaf(operation, result, options, where);
  return result;
}

// Number i of `steps` numbers: counted from the nearer end, so that both ends are exact.
double between(double start, double end, std::int64_t steps, std::int64_t i) {
  if (steps == 1) return start;
  const auto count = static_cast<double>(steps - 1);
  // end - start overflows for ends of unlike signs that are nearly the largest numbers.
  const double step =
      std::isfinite(end - start) ? (end - start) / count : end / count - start / count;
  return i < steps / 2 ? start + step * static_cast<double>(i)
                       : end - step * static_cast<double>(steps - 1 - i);
}

}  // namespace

Tensor linspace(Scalar start, Scalar end, std::int64_t steps, const Options& options, Where where) {
  return numbers("linspace", steps, options, where, [&](std::int64_t i) {
    return between(start.to<double>(), end.to<double>(), steps, i);
  });
}

Tensor logspace(Scalar start, Scalar end, std::int64_t steps, double base, const Options& options,
                Where where) {
  return numbers("logspace", steps, options, where, [&](std::int64_t i) {
    return std::pow(base, between(start.to<double>(), end.to<double>(), steps, i));
  });
}

Tensor eye(std::int64_t n, const Options& options, Where where) {
  const Device device = options.device.is_cpu() ? options.device : Device();
  Tensor host = zeros({n, n}, {.dtype = options.dtype, .device = device}, where);
  dispatch_dtype(options.dtype, [&]<class T>() {
    T* data = host.data<T>();
    for (std::int64_t i = 0; i < n; ++i) data[i * n + i] = Scalar(1).to<T>();
  });
  const Tensor result = to_device(host, options.device, where);
  set_leaf("eye", result, options, where);
  return result;
}

template <class T>
Tensor from_values(std::span<const T> values, const Shape& shape, Where where) {
  const Tensor result = empty(shape, {.dtype = dtype_of<T>, .device = host_device()}, where);
  RINGRAD_CHECK(result.numel() == static_cast<std::int64_t>(values.size()), ShapeError, where,
                "from_values: the shape must hold the values; got ", shape, " and ", values.size(),
                " values");
  std::copy(values.begin(), values.end(), result.data<T>());
  return to_device(result, default_device(), where);
}

#define RINGRAD_INSTANTIATE(dtype, T) \
  template Tensor from_values(std::span<const T>, const Shape&, Where);
RINGRAD_FOR_EACH_DTYPE(RINGRAD_INSTANTIATE)
#undef RINGRAD_INSTANTIATE

template <class T>
Tensor tensor(const std::vector<T>& values, Where where) {
  const Tensor result = empty({static_cast<std::int64_t>(values.size())},
                              {.dtype = dtype_of<T>, .device = host_device()}, where);
  std::copy(values.begin(), values.end(), result.data<T>());
  return to_device(result, default_device(), where);
}

#define RINGRAD_INSTANTIATE(dtype, T) template Tensor tensor(const std::vector<T>&, Where);
RINGRAD_FOR_EACH_DTYPE(RINGRAD_INSTANTIATE)
#undef RINGRAD_INSTANTIATE

Tensor tensor(const Values& values, DType dtype, Where where) {
  Shape shape;
  std::vector<Scalar> numbers;
  flatten_values(values, 0, shape, numbers, where);
  for (const Scalar& number : numbers) check_fits("tensor", number, dtype, where);
  const Tensor result = empty(shape, {.dtype = dtype, .device = host_device()}, where);
  dispatch_dtype(dtype, [&]<class T>() {
    std::transform(numbers.begin(), numbers.end(), result.data<T>(),
                   [](const Scalar& number) { return number.to<T>(); });
  });
  return to_device(result, default_device(), where);
}

Tensor tensor(const Values& values, Where where) {
  return tensor(values, natural_dtype(values).value_or(DType::float32), where);
}

Tensor scalar_tensor(Scalar value, const Options& options, Where where) {
  return full({}, value, options, where);
}

Tensor from_memory(void* data, const Shape& shape, const Options& options,
                   std::shared_ptr<void> owner, Where where) {
  check_extents("from_memory", shape, size_bytes(options.dtype), where);
  check_layout("from_memory", shape, options.layout, where);
  const auto bytes = static_cast<std::size_t>(shape.numel()) * size_bytes(options.dtype);
  const auto beside = reinterpret_cast<std::uintptr_t>(data) % size_bytes(options.dtype);
  RINGRAD_CHECK(beside == 0 || bytes == 0, ValueError, where,
                "from_memory: the memory must be aligned to its elements of ",
                size_bytes(options.dtype), " bytes; got an address at byte ", beside, " of one");
  // A slice of a whole that is the owner's: never stolen for a gradient, nor moved into an arena.
  const auto whole = make_ref<Storage>(data, bytes, options.device, std::move(owner));
  Tensor result(make_ref<TensorImpl>(Storage::slice(whole, 0, bytes), 0, shape,
                                     strides_for(shape, options.layout), options.dtype, where));
  set_leaf("from_memory", result, options, where);
  return result;
}

void check_truth_values(const char* operation, const Tensor& x, Where where) {
  if (x.dtype(where) != DType::bool_ || !x.device().is_cpu()) return;
  const std::byte* bytes = x.raw_data();
  const auto check = [&](std::int64_t offset) {
    RINGRAD_CHECK(bytes[offset] <= std::byte{1}, DataError, where, operation,
                  ": truth values must be the bytes 0 and 1; got ",
                  std::to_integer<int>(bytes[offset]));
  };
  if (x.is_contiguous())
    for (std::int64_t i = 0; i < x.numel(); ++i) check(i);
  else
    for_each_offset(x.shape(), x.strides(), check);
}

}  // namespace ringrad
