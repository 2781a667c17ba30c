#include "ringrad/benchmarks/cuda_operator_cases.h"

#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/random/random.h"
#include "ringrad/kernels/attention/attention.h"
#include "ringrad/kernels/convolution/convolution.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/kernels/loss/cross_entropy.h"
#include "ringrad/kernels/loss/softmax.h"
#include "ringrad/kernels/matmul/matmul.h"
#include "ringrad/kernels/norm/batch_norm_training.h"
#include "ringrad/kernels/norm/row_norm.h"
#include "ringrad/kernels/optimizer/optimizer_step.h"
#include "ringrad/kernels/reduce/reduce.h"

namespace ringrad::bench {
namespace {

using OperatorCases = std::vector<CudaOperatorCase>;

const Device kGpu(DeviceType::cuda, 0);

bool simulated() { return is_cuda_simulated(); }

Tensor random(const Shape& shape, DType dtype = DType::float32) {
  return randn(shape, {.dtype = dtype, .device = kGpu});
}

double bytes_of(const Tensor& x) {
  return static_cast<double>(x.numel()) * static_cast<double>(size_bytes(x.dtype()));
}

void add(OperatorCases& cases, const std::string& name, std::function<CudaWork()> make) {
  cases.push_back({name, std::move(make)});
}

std::string dtype_path(const char* op, DType dtype) {
  return std::string(op) + "/cuda/" + std::string(name(dtype));
}

void add_bandwidth_cases(OperatorCases& cases, DType dtype) {
  const std::int64_t B = simulated() ? 16 : 32'768, C = simulated() ? 64 : 1024;
  const std::string extents = "/B:" + std::to_string(B) + "/C:" + std::to_string(C);
  const Shape shape{B, C};
  add(cases, dtype_path("BM_Copy", dtype) + extents, [=] {
    const Tensor x = random(shape, dtype), y = empty_like(x);
    return CudaWork{[=] { kernels::copy_(y, x); }, 2 * bytes_of(x)};
  });
  add(cases, dtype_path("BM_Add", dtype) + extents, [=] {
    const Tensor a = random(shape, dtype), b = random(shape, dtype);
    return CudaWork{[=] { kernels::binary<ops::Add>(a, b); }, 3 * bytes_of(a)};
  });
  add(cases, dtype_path("BM_Relu", dtype) + extents, [=] {
    const Tensor x = random(shape, dtype);
    return CudaWork{[=] { kernels::unary(ops::Relu(), x); }, 2 * bytes_of(x)};
  });
  for (const int axis : {0, 1})
    add(cases, dtype_path("BM_Sum", dtype) + "/axis:" + std::to_string(axis) + extents, [=] {
      const Tensor x = random(shape, dtype);
      return CudaWork{[=] { kernels::sum(x, {axis}); }, bytes_of(x)};
    });
  add(cases, dtype_path("BM_Softmax", dtype) + extents, [=] {
    const Tensor x = random(shape, dtype);
    return CudaWork{[=] { kernels::softmax(x, 1); }, 2 * bytes_of(x)};
  });
  add(cases, dtype_path("BM_LayerNorm", dtype) + extents, [=] {
    const Tensor x = random(shape, dtype), w = random({C}, dtype), b = random({C}, dtype);
    return CudaWork{[=] { kernels::layer_norm(x, w, b, 1e-5); }, 2 * bytes_of(x)};
  });
  add(cases, dtype_path("BM_CrossEntropy", dtype) + extents, [=] {
    const Tensor x = random(shape, dtype);
    const Tensor targets = zeros({B}, {.dtype = DType::int64, .device = kGpu});
    return CudaWork{[=] { kernels::cross_entropy(x, targets, {}); }, bytes_of(x)};
  });
}

void add_batch_norm(OperatorCases& cases, DType dtype) {
  const std::int64_t B = simulated() ? 2 : 128, C = simulated() ? 8 : 64, H = simulated() ? 4 : 64;
  add(cases,
      dtype_path("BM_BatchNormRelu", dtype) + "/B:" + std::to_string(B) +
          "/C:" + std::to_string(C) + "/H:" + std::to_string(H) + "/W:" + std::to_string(H),
      [=] {
        const Tensor x = kernels::to_layout(random({B, C, H, H}, dtype), Layout::channels_last);
        const Tensor w = random({C}), b = random({C});
        return CudaWork{[=] { kernels::batch_norm_train(x, w, b, 1e-5, /*relu=*/true); },
                        3 * bytes_of(x)};
      });
}

void add_adam(OperatorCases& cases) {
  const std::int64_t n = simulated() ? 1 << 12 : 1 << 26;
  add(cases, dtype_path("BM_Adam", DType::float32) + "/n:" + std::to_string(n), [=] {
    const Tensor p = random({n}), g = random({n}), m = random({n}), v = rand({n}, {.device = kGpu});
    return CudaWork{[=] { kernels::adam_step(p, g, m, v, kernels::AdamStep()); }, 7 * bytes_of(p)};
  });
}

void add_matmul(OperatorCases& cases, DType dtype, std::int64_t n) {
  add(cases,
      dtype_path("BM_Matmul", dtype) + "/M:" + std::to_string(n) + "/N:" + std::to_string(n) +
          "/K:" + std::to_string(n),
      [=] {
        const Tensor a = random({n, n}, dtype), b = random({n, n}, dtype);
        const double side = static_cast<double>(n);
        return CudaWork{[=] { kernels::matmul(a, b); }, 0, 2 * side * side * side};
      });
}

void add_conv2d(OperatorCases& cases, DType dtype) {
  const std::int64_t B = simulated() ? 2 : 128, C = simulated() ? 8 : 64, H = simulated() ? 6 : 56;
  add(cases,
      dtype_path("BM_Conv2d", dtype) + "/B:" + std::to_string(B) + "/C:" + std::to_string(C) +
          "/K:" + std::to_string(C) + "/H:" + std::to_string(H) + "/W:" + std::to_string(H),
      [=] {
        const Tensor x = kernels::to_layout(random({B, C, H, H}, dtype), Layout::channels_last);
        const Tensor w = random({C, C, 3, 3}, dtype);
        const double macs = static_cast<double>(x.numel()) * static_cast<double>(C) * 9;
        return CudaWork{[=] {
                          kernels::convolution(x, w, {}, Conv2dOptions{.padding = {1, 1}});
                        },
                        0, 2 * macs};
      });
}

// Causal, with the extents of GPT-2's smallest model.
void add_attention(OperatorCases& cases, DType dtype) {
  const std::int64_t B = simulated() ? 1 : 8, H = simulated() ? 2 : 12, T = simulated() ? 32 : 1024;
  constexpr std::int64_t D = 64;
  const std::string extents = "/B:" + std::to_string(B) + "/H:" + std::to_string(H) +
                              "/T:" + std::to_string(T) + "/D:" + std::to_string(D);
  const auto input = [=] { return random({B, H, T, D}, dtype); };
  const double product = static_cast<double>(B * H * D * T) * static_cast<double>(T);  // half of 2x
  add(cases, dtype_path("BM_Attention", dtype) + extents, [=] {
    const Tensor q = input(), k = input(), v = input();
    return CudaWork{[=] { kernels::attention(q, k, v, {.causal = true}); }, 0, 2 * product};
  });
  add(cases, dtype_path("BM_AttentionBackward", dtype) + extents, [=] {
    const Tensor q = input(), k = input(), v = input(), gradient = input();
    const AttentionOptions options{.causal = true};
    const kernels::AttentionResult result = kernels::attention(q, k, v, options);
    return CudaWork{[=] { kernels::attention_backward(gradient, q, k, v, result, options); }, 0,
                    5 * product};
  });
}

}  // namespace

std::vector<CudaOperatorCase> cuda_operator_cases() {
  OperatorCases cases;
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    add_bandwidth_cases(cases, dtype);
    add_batch_norm(cases, dtype);
    if (simulated())
      add_matmul(cases, dtype, 64);
    else
      for (const std::int64_t n : {1024, 4096, 8192}) add_matmul(cases, dtype, n);
    add_conv2d(cases, dtype);
    add_attention(cases, dtype);
  }
  add_adam(cases);
  return cases;
}

}  // namespace ringrad::bench
