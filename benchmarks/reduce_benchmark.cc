// Moving and reducing memory, compared with the speed of memory.
//
//   BM_Copy/cpu/float32/memcpy          the limit
//   BM_Copy/cpu/float32/same            a contiguous matrix into another one
//   BM_Copy/cpu/float32/transpose       a matrix into its transpose
//   BM_Copy/cpu/float32/cast            to bfloat16
//   BM_Copy/cpu/float32/nhwc            images into channels_last; nchw: back
//   BM_Reduce/cpu/float32/<op>/last     a matrix along its last axis; first; all
//   BM_Reduce/cpu/float32/<op>/channels_nchw    images (B, C, H, W) to (C,); channels_nhwc
//
// bytes_per_second counts what is read and what is written, once each. OMP_NUM_THREADS sets the
// number of threads.

#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <utility>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/reduce/argmax.h"
#include "ringrad/kernels/reduce/reduce.h"

namespace ringrad {
namespace {

constexpr std::int64_t kSides[] = {512, 1024, 4096};  // of square matrices: 1, 4 and 64 MiB
const Shape kImages = {128, 32, 28, 28};
const std::string kImageExtents = "/B:128/C:32/H:28/W:28";

std::int64_t num_bytes(const Tensor& x) {
  return x.numel() * static_cast<std::int64_t>(size_bytes(x.dtype()));
}

void run_copy(benchmark::State& state, const Tensor& dst, const Tensor& src) {
  for (auto _ : state) kernels::copy_(dst, src);
  state.SetBytesProcessed(state.iterations() * (num_bytes(dst) + num_bytes(src)));
}

void run_memcpy(benchmark::State& state, const Tensor& dst, const Tensor& src) {
  for (auto _ : state) {
    std::memcpy(dst.raw_data(), src.raw_data(), static_cast<std::size_t>(num_bytes(src)));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * num_bytes(src));
}

// Reduces one axis, or all.
Tensor argmax(const Tensor& x, const Shape& axes) {
  return axes.empty() ? kernels::argmax(x) : kernels::argmax(x, axes[0]);
}

struct ReduceRow {
  const char* name;
  Tensor (*op)(const Tensor& x, const Shape& axes);
};

const ReduceRow kReductions[] = {
    {"sum", [](const Tensor& x, const Shape& axes) { return kernels::sum(x, axes); }},
    {"max", [](const Tensor& x, const Shape& axes) { return kernels::max(x, axes); }},
    {"var", [](const Tensor& x, const Shape& axes) { return kernels::var(x, axes); }},
    {"argmax", argmax},
};

void run_reduce(benchmark::State& state, const ReduceRow& row, const Tensor& x, const Shape& axes) {
  for (auto _ : state) benchmark::DoNotOptimize(row.op(x, axes));
  state.SetBytesProcessed(state.iterations() * num_bytes(x));
}

Tensor images(Layout layout) { return ones(kImages, {.layout = layout}); }

template <class Body>
void add_case(const std::string& name, Body body) {
  benchmark::RegisterBenchmark(name.c_str(), body)->UseRealTime();
}

void add_copies(std::int64_t n) {
  const std::string extents = "/M:" + std::to_string(n) + "/N:" + std::to_string(n);
  add_case("BM_Copy/cpu/float32/memcpy" + extents, [n](benchmark::State& state) {
    run_memcpy(state, ones({n, n}), ones({n, n}));
  });
  add_case("BM_Copy/cpu/float32/same" + extents, [n](benchmark::State& state) {
    run_copy(state, ones({n, n}), ones({n, n}));
  });
  add_case("BM_Copy/cpu/float32/transpose" + extents, [n](benchmark::State& state) {
    run_copy(state, ones({n, n}), view::transpose(ones({n, n}), 0, 1));
  });
  add_case("BM_Copy/cpu/float32/cast" + extents, [n](benchmark::State& state) {
    run_copy(state, ones({n, n}, {.dtype = DType::bfloat16}), ones({n, n}));
  });
}

void add_layout_changes() {
  add_case("BM_Copy/cpu/float32/nhwc" + kImageExtents, [](benchmark::State& state) {
    run_copy(state, images(Layout::channels_last), images(Layout::contiguous));
  });
  add_case("BM_Copy/cpu/float32/nchw" + kImageExtents, [](benchmark::State& state) {
    run_copy(state, images(Layout::contiguous), images(Layout::channels_last));
  });
}

void add_reductions(const ReduceRow& row) {
  const std::string prefix = std::string("BM_Reduce/cpu/float32/") + row.name;
  for (const std::int64_t n : kSides) {
    const std::string extents = "/M:" + std::to_string(n) + "/N:" + std::to_string(n);
    const std::pair<const char*, Shape> patterns[] = {
        {"/last", {1}}, {"/first", {0}}, {"/all", {}}};
    for (const auto& [which, axes] : patterns)
      add_case(prefix + which + extents, [&row, n, axes = axes](benchmark::State& state) {
        run_reduce(state, row, ones({n, n}), axes);
      });
  }
}

void add_channel_reductions(const ReduceRow& row) {
  const std::string prefix = std::string("BM_Reduce/cpu/float32/") + row.name;
  add_case(prefix + "/channels_nchw" + kImageExtents, [&row](benchmark::State& state) {
    run_reduce(state, row, images(Layout::contiguous), {0, 2, 3});
  });
  add_case(prefix + "/channels_nhwc" + kImageExtents, [&row](benchmark::State& state) {
    run_reduce(state, row, images(Layout::channels_last), {0, 2, 3});
  });
}

[[maybe_unused]] const bool registered = [] {
  for (const std::int64_t n : kSides) add_copies(n);
  add_layout_changes();
  for (const ReduceRow& row : kReductions) {
    add_reductions(row);
    if (row.op != argmax) add_channel_reductions(row);
  }
  return true;
}();

}  // namespace
}  // namespace ringrad
