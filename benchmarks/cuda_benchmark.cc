// The operators on a GPU: how far from the memory's speed, and from the fastest product?
//
//   BM_Copy/cuda/float32             device to device, the limit that `of_copy` is a share of
//   BM_Add  BM_Relu  BM_Sum  BM_Softmax  BM_LayerNorm  BM_BatchNormRelu  BM_CrossEntropy  BM_Adam
//   BM_Matmul                        square, flops in items_per_second
//   BM_Conv2d                        3x3, channels_last, forward
//
// Times are the device's, between two events around a batch of calls. Tensors are larger than the second
// cache of any GPU so far (128 MiB). On simulated devices the sizes are tiny and the times simulated: that
// run shows only that everything works, and its context says "simulated".

#include <benchmark/benchmark.h>

#include <functional>
#include <iostream>
#include <string>

#include "core/random.h"
#include "core/stream.h"
#include "kernels/batch_norm.h"
#include "kernels/convolution.h"
#include "kernels/copy.h"
#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/layer_norm.h"
#include "kernels/matmul.h"
#include "kernels/optimizer_step.h"
#include "kernels/reduce.h"
#include "kernels/softmax.h"

namespace ringrad {
namespace {

const Device kGpu(DeviceType::cuda, 0);
constexpr int kCalls = 10;  // per pair of events

bool simulated() { return is_cuda_simulated(); }

double milliseconds(const std::function<void()>& call) {
  const Stream stream = current_stream(kGpu);
  call();  // warms up what is allocated or chosen once
  synchronize(kGpu);
  const Event begin(stream, /*timing=*/true);
  for (int i = 0; i < kCalls; ++i) call();
  const Event end(stream, /*timing=*/true);
  end.synchronize();
  return Event::milliseconds(begin, end) / kCalls;
}

Tensor random(const Shape& shape, DType dtype = DType::float32) {
  return randn(shape, {.dtype = dtype, .device = kGpu});
}

double bytes_of(const Tensor& x) {
  return static_cast<double>(x.numel()) * static_cast<double>(size_bytes(x.dtype()));
}

// Bytes per second of a copy, read and written bytes counted.
double copy_speed() {
  static const double speed = [] {
    const Tensor from = random({simulated() ? 1 << 12 : 1 << 26}), to = empty_like(from);
    return 2 * bytes_of(from) / (1e-3 * milliseconds([&] { kernels::copy_(to, from); }));
  }();
  return speed;
}

// What a case measures, made when it runs, and what one call moves and computes.
struct Work {
  std::function<void()> call;
  double bytes = 0;
  double flops = 0;
};

void run(benchmark::State& state, const std::function<Work()>& make) {
  const Work work = make();
  double seconds = 0;
  for (auto _ : state) {
    const double once = 1e-3 * milliseconds(work.call);
    state.SetIterationTime(once);
    seconds += once;
  }
  const auto rate = [&](double amount) {
    return amount * static_cast<double>(state.iterations()) / seconds;
  };
  if (work.bytes > 0) {
    state.counters["bytes_per_second"] = rate(work.bytes);
    state.counters["of_copy"] = rate(work.bytes) / copy_speed();
  }
  if (work.flops > 0) state.counters["flops_per_second"] = rate(work.flops);
}

void add(const std::string& name, std::function<Work()> make) {
  auto* added = benchmark::RegisterBenchmark(
      name.c_str(), [make = std::move(make)](benchmark::State& state) { run(state, make); });
  added->UseManualTime();
  if (simulated()) added->Iterations(1);
}

std::string dtype_path(const char* op, DType dtype) {
  return std::string(op) + "/cuda/" + std::string(name(dtype));
}

void add_bandwidth_cases(DType dtype) {
  const std::int64_t B = simulated() ? 16 : 32'768, C = simulated() ? 64 : 1024;
  const std::string extents = "/B:" + std::to_string(B) + "/C:" + std::to_string(C);
  const Shape shape{B, C};
  add(dtype_path("BM_Copy", dtype) + extents, [=] {
    const Tensor x = random(shape, dtype), y = empty_like(x);
    return Work{[=] { kernels::copy_(y, x); }, 2 * bytes_of(x)};
  });
  add(dtype_path("BM_Add", dtype) + extents, [=] {
    const Tensor a = random(shape, dtype), b = random(shape, dtype);
    return Work{[=] { kernels::binary<ops::Add>(a, b); }, 3 * bytes_of(a)};
  });
  add(dtype_path("BM_Relu", dtype) + extents, [=] {
    const Tensor x = random(shape, dtype);
    return Work{[=] { kernels::unary(ops::Relu(), x); }, 2 * bytes_of(x)};
  });
  for (const int axis : {0, 1})
    add(dtype_path("BM_Sum", dtype) + "/axis:" + std::to_string(axis) + extents, [=] {
      const Tensor x = random(shape, dtype);
      return Work{[=] { kernels::sum(x, {axis}); }, bytes_of(x)};
    });
  add(dtype_path("BM_Softmax", dtype) + extents, [=] {
    const Tensor x = random(shape, dtype);
    return Work{[=] { kernels::softmax(x, 1); }, 2 * bytes_of(x)};
  });
  add(dtype_path("BM_LayerNorm", dtype) + extents, [=] {
    const Tensor x = random(shape, dtype), w = random({C}, dtype), b = random({C}, dtype);
    return Work{[=] { kernels::layer_norm(x, w, b, 1e-5); }, 2 * bytes_of(x)};
  });
  add(dtype_path("BM_CrossEntropy", dtype) + extents, [=] {
    const Tensor x = random(shape, dtype);
    const Tensor targets = zeros({B}, {.dtype = DType::int64, .device = kGpu});
    return Work{[=] { kernels::cross_entropy(x, targets, {}); }, bytes_of(x)};
  });
}

void add_batch_norm(DType dtype) {
  const std::int64_t B = simulated() ? 2 : 128, C = simulated() ? 8 : 64, H = simulated() ? 4 : 64;
  add(dtype_path("BM_BatchNormRelu", dtype) + "/B:" + std::to_string(B) +
          "/C:" + std::to_string(C) + "/H:" + std::to_string(H) + "/W:" + std::to_string(H),
      [=] {
        const Tensor x = kernels::to_layout(random({B, C, H, H}, dtype), Layout::channels_last);
        const Tensor w = random({C}), b = random({C});
        return Work{[=] {
                      const kernels::Moments moments = kernels::batch_norm_moments(x);
                      const Tensor rstd = kernels::batch_norm_rstd(moments.var, 1e-5);
                      kernels::batch_norm_apply(x, moments.mean, rstd, w, b, true);
                    },
                    3 * bytes_of(x)};
      });
}

void add_adam() {
  const std::int64_t n = simulated() ? 1 << 12 : 1 << 26;
  add(dtype_path("BM_Adam", DType::float32) + "/n:" + std::to_string(n), [=] {
    const Tensor p = random({n}), g = random({n}), m = random({n}), v = rand({n}, {.device = kGpu});
    return Work{[=] { kernels::adam_step(p, g, m, v, kernels::AdamStep()); }, 7 * bytes_of(p)};
  });
}

void add_matmul(DType dtype, std::int64_t n) {
  add(dtype_path("BM_Matmul", dtype) + "/M:" + std::to_string(n) + "/N:" + std::to_string(n) +
          "/K:" + std::to_string(n),
      [=] {
        const Tensor a = random({n, n}, dtype), b = random({n, n}, dtype);
        const double side = static_cast<double>(n);
        return Work{[=] { kernels::matmul(a, b); }, 0, 2 * side * side * side};
      });
}

void add_conv2d(DType dtype) {
  const std::int64_t B = simulated() ? 2 : 128, C = simulated() ? 8 : 64, H = simulated() ? 6 : 56;
  add(dtype_path("BM_Conv2d", dtype) + "/B:" + std::to_string(B) + "/C:" + std::to_string(C) +
          "/K:" + std::to_string(C) + "/H:" + std::to_string(H) + "/W:" + std::to_string(H),
      [=] {
        const Tensor x = kernels::to_layout(random({B, C, H, H}, dtype), Layout::channels_last);
        const Tensor w = random({C, C, 3, 3}, dtype);
        const double macs = static_cast<double>(x.numel()) * static_cast<double>(C) * 9;
        return Work{[=] { kernels::conv2d(x, w, {}, {.padding = {1, 1}}); }, 0, 2 * macs};
      });
}

void add_all() {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    add_bandwidth_cases(dtype);
    add_batch_norm(dtype);
    if (simulated())
      add_matmul(dtype, 64);
    else
      for (const std::int64_t n : {1024, 4096, 8192}) add_matmul(dtype, n);
    add_conv2d(dtype);
  }
  add_adam();
}

}  // namespace
}  // namespace ringrad

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  if (ringrad::num_cuda_devices() == 0) {
    std::cerr << "cuda_benchmark: skipped: no GPU\n";
    return 0;
  }
  benchmark::AddCustomContext("gpu", ringrad::gpu_name(ringrad::kGpu));
  ringrad::add_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
