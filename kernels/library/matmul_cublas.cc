#include "ringrad/kernels/library/matmul_cublas.h"

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "ringrad/core/capture.h"
#include "ringrad/core/gpu/shared_library.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/kernels/library/blas_product.h"
#include "ringrad/kernels/library/fastest.h"
#include "ringrad/kernels/library/per_device.h"
#include "ringrad/kernels/library/workspace.h"

namespace ringrad::kernels::cublas {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // as Hopper's algorithms request
constexpr int kCandidates = 8;

// The library's functions, looked up when the first product needs them.
struct Library {
  SharedLibrary file{"libcublasLt.so.13", "libcublasLt.so.12"};
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtMatmulDescInit_internal) init_desc = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_desc = nullptr;
  decltype(&cublasLtMatrixLayoutInit_internal) init_layout = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceInit_internal) init_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtGetStatusString) status_string = nullptr;

  Library() {
    file.find("cublasLtCreate", create);
    file.find("cublasLtMatmulDescInit_internal", init_desc);
    file.find("cublasLtMatmulDescSetAttribute", set_desc);
    file.find("cublasLtMatrixLayoutInit_internal", init_layout);
    file.find("cublasLtMatrixLayoutSetAttribute", set_layout);
    file.find("cublasLtMatmulPreferenceInit_internal", init_preference);
    file.find("cublasLtMatmulPreferenceSetAttribute", set_preference);
    file.find("cublasLtMatmulAlgoGetHeuristic", heuristic);
    file.find("cublasLtMatmul", matmul);
    file.find("cublasLtGetStatusString", status_string);
  }
};

const Library& library() {
  static const Library* loaded = new Library;  // never closed
  return *loaded;
}

void check(cublasStatus_t status, const char* call, Where where) {
  RINGRAD_CHECK(status == CUBLAS_STATUS_SUCCESS, CudaError, where,
                "cublas: the call must succeed; got ", library().status_string(status), " from ",
                call);
}

// Everything that determines which algorithm is best.
struct Key {
  DType dtype;
  bool tf32, has_bias;
  GemmProblem problem;
  std::uint32_t alignment;  // of the least aligned operand

  auto tie() const {
    const GemmProblem& p = problem;
    return std::tuple(dtype, tf32, has_bias, p.relu, p.batch, p.M, p.N, p.K, p.a_batch, p.a_row,
                      p.a_column, p.b_batch, p.b_row, p.b_column, p.out_batch, p.out_row,
                      alignment);
  }
  bool operator<(const Key& other) const { return tie() < other.tie(); }
};

cudaDataType_t data_type(DType dtype) {
  if (dtype == DType::float64) return CUDA_R_64F;
  if (dtype == DType::float16) return CUDA_R_16F;
  if (dtype == DType::bfloat16) return CUDA_R_16BF;
  return CUDA_R_32F;
}

cublasLtMatrixLayoutOpaque_t layout_of(DType dtype, const BlasMatrix& matrix, std::int64_t batch,
                                       std::int64_t batch_stride, Where where) {
  cublasLtMatrixLayoutOpaque_t layout{};
  check(library().init_layout(&layout, sizeof layout, data_type(dtype),
                              static_cast<std::uint64_t>(matrix.rows),
                              static_cast<std::uint64_t>(matrix.columns), matrix.leading),
        "cublasLtMatrixLayoutInit", where);
  const auto count = static_cast<std::int32_t>(batch);
  check(library().set_layout(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
        "cublasLtMatrixLayoutSetAttribute", where);
  check(library().set_layout(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride,
                             sizeof batch_stride),
        "cublasLtMatrixLayoutSetAttribute", where);
  return layout;
}

// One product in cuBLASLt's terms.
struct Call {
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t left, right, out;  // out = left * right
  bool is_double;

  Call(const Key& key, const BlasProduct& product, const void* bias, Where where);

  cublasStatus_t run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm, const void* a,
                     const void* b, void* result, void* workspace, cudaStream_t stream) const {
    const float one = 1, zero = 0;
    const double wide_one = 1, wide_zero = 0;
    const void* alpha = is_double ? static_cast<const void*>(&wide_one) : &one;
    const void* beta = is_double ? static_cast<const void*>(&wide_zero) : &zero;
    // cuBLASLt's signatures lack const; it changes neither descriptions nor operands.
    auto* description = const_cast<cublasLtMatmulDescOpaque_t*>(&desc);
    const auto layout = [](const cublasLtMatrixLayoutOpaque_t& matrix) {
      return const_cast<cublasLtMatrixLayoutOpaque_t*>(&matrix);
    };
    return library().matmul(handle, description, alpha, b, layout(left), a, layout(right), beta,
                            result, layout(out), result, layout(out), &algorithm, workspace,
                            kWorkspaceBytes, stream);
  }
};

Call::Call(const Key& key, const BlasProduct& product, const void* bias, Where where)
    : is_double(key.dtype == DType::float64) {
  const GemmProblem& p = key.problem;
  const auto compute = is_double  ? CUBLAS_COMPUTE_64F
                       : key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                  : CUBLAS_COMPUTE_32F;
  check(library().init_desc(&desc, sizeof desc, compute, is_double ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescInit", where);
  left = layout_of(key.dtype, product.left, p.batch, p.b_batch, where);
  right = layout_of(key.dtype, product.right, p.batch, p.a_batch, where);
  out = layout_of(key.dtype, product.out, p.batch, p.out_batch, where);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(library().set_desc(&desc, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute", where);
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, product.left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, product.right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  const auto epilogue = bias && p.relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                        : bias         ? CUBLASLT_EPILOGUE_BIAS
                        : p.relu       ? CUBLASLT_EPILOGUE_RELU
                                       : CUBLASLT_EPILOGUE_DEFAULT;
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
}

// A device's handle, and the algorithms found so far.
class CublasContext {
 public:
  explicit CublasContext(Device device, Where where) : device_(device) {
    const DeviceGuard guard(device, where);
    check(library().create(&handle_), "cublasLtCreate", where);
  }

  // Returns false if there is no algorithm. That result is also kept.
  bool multiply(const Key& key, const BlasProduct& product, const void* a, const void* b,
                const void* bias, void* result, Where where) {
    const DeviceGuard guard(device_, where);
    const Call call(key, product, bias, where);
    const Workspace workspace(kWorkspaceBytes, device_, where);
    const cudaStream_t stream = current_stream(device_).handle();
    const auto run = [&](const cublasLtMatmulAlgo_t& algorithm) {
      return call.run(handle_, algorithm, a, b, result, workspace.address(), stream);
    };
    const std::optional<cublasLtMatmulAlgo_t> algorithm = find(key, call, run, where);
    if (algorithm) check(run(*algorithm), "cublasLtMatmul", where);
    return algorithm.has_value();
  }

 private:
  template <class Run>
  std::optional<cublasLtMatmulAlgo_t> find(const Key& key, const Call& call, const Run& run,
                                           Where where) {
    const std::scoped_lock lock(mutex_);
    const auto known = algorithms_.find(key);
    if (known != algorithms_.end()) return known->second;
    const std::vector<cublasLtMatmulAlgo_t> candidates = propose(key, call, where);
    const auto chosen = fastest(
        device_, static_cast<int>(candidates.size()),
        [&](int i) { return run(candidates[static_cast<unsigned>(i)]) == CUBLAS_STATUS_SUCCESS; },
        where);
    std::optional<cublasLtMatmulAlgo_t> algorithm;
    if (chosen) algorithm = candidates[static_cast<unsigned>(*chosen)];
    if (!is_capturing()) algorithms_.emplace(key, algorithm);
    return algorithm;
  }

  std::vector<cublasLtMatmulAlgo_t> propose(const Key& key, const Call& call, Where where) {
    cublasLtMatmulPreferenceOpaque_t preference;
    check(library().init_preference(&preference, sizeof preference), "cublasLtMatmulPreferenceInit",
          where);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check(library().set_preference(&preference, attribute, &value, sizeof value),
            "cublasLtMatmulPreferenceSetAttribute", where);
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      set(attribute, key.alignment);
    std::array<cublasLtMatmulHeuristicResult_t, kCandidates> found{};
    int count = 0;
    Call asked = call;
    const cublasStatus_t status =
        library().heuristic(handle_, &asked.desc, &asked.left, &asked.right, &asked.out, &asked.out,
                            &preference, kCandidates, found.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
    check(status, "cublasLtMatmulAlgoGetHeuristic", where);
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (int i = 0; i < count; ++i)
      if (found[static_cast<unsigned>(i)].state == CUBLAS_STATUS_SUCCESS)
        algorithms.push_back(found[static_cast<unsigned>(i)].algo);
    return algorithms;
  }

  Device device_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::map<Key, std::optional<cublasLtMatmulAlgo_t>> algorithms_;
};

}  // namespace

const std::string& missing() { return library().file.missing(); }

bool multiply(Device device, DType dtype, const GemmProblem& problem, const void* a, const void* b,
              const void* bias, void* out, bool tf32, Where where) {
  const std::optional<BlasProduct> product = blas_product(problem, a, b, bias, out);
  if (!product) return false;
  const Key key{dtype, tf32 && dtype == DType::float32, bias != nullptr, problem,
                product->alignment};
  return per_device<CublasContext>(device, where).multiply(key, *product, a, b, bias, out, where);
}

}  // namespace ringrad::kernels::cublas
