#include "ringrad/data/collate.h"

#include <cstring>
#include <utility>

namespace ringrad {
namespace {

// Writes x's elements in row-major order; returns the place behind them.
std::byte* write(const Tensor& x, std::byte* to) {
  const std::size_t bytes = static_cast<std::size_t>(x.numel()) * size_bytes(x.dtype());
  if (bytes == 0) return to;
  if (x.is_contiguous()) {
    std::memcpy(to, x.raw_data(), bytes);
    return to + bytes;
  }
  const std::size_t unit = size_bytes(x.dtype());
  for_each_offset(x.shape(), x.strides(), [&](std::int64_t at) {
    std::memcpy(to, x.raw_data() + at * static_cast<std::int64_t>(unit), unit);
    to += unit;
  });
  return to;
}

void check(const Tensor& x, const Tensor& first, Where where) {
  check_cpu("collate", x.device(where), where);
  check_same_dtype("collate", first, x, where);
  RINGRAD_CHECK(x.shape() == first.shape(), ShapeError, where,
                "collate: the samples of a batch must have equal shapes; got ", first.shape(),
                " and ", x.shape());
}

}  // namespace

Batch collate(std::span<const Sample> samples, Where where) {
  RINGRAD_CHECK(!samples.empty() && !samples.front().empty(), ValueError, where,
                "collate: there must be a sample with a tensor; got ", samples.size(), " samples");
  const std::size_t count = samples.front().size();
  for (const Sample& sample : samples)
    RINGRAD_CHECK(sample.size() == count, ValueError, where,
                  "collate: samples must have equally many tensors; got ", count, " and ",
                  sample.size());
  Batch batch;
  for (std::size_t i = 0; i < count; ++i) {
    const Tensor& first = samples.front()[i];
    for (const Sample& sample : samples) check(sample[i], first, where);
    RINGRAD_CHECK(first.dims() < kMaxDims, ShapeError, where, "collate: at most ", kMaxDims,
                  " axes are supported; got ", first.shape(), " and one more");
    Shape shape = first.shape();
    shape.insert(0, std::ssize(samples));
    Tensor stacked = empty(shape, {.dtype = first.dtype(), .device = first.device()}, where);
    std::byte* to = stacked.raw_data();
    for (const Sample& sample : samples) to = write(sample[i], to);
    batch.tensors.push_back(std::move(stacked));
  }
  return batch;
}

}  // namespace ringrad
