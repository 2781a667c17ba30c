#include "kernels/vendor.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "kernels/matmul_cublas.h"

namespace ringrad::kernels {
namespace {

std::atomic<bool>& tf32() {
  static std::atomic<bool> allowed = [] {
    const char* asked = std::getenv("RINGRAD_TF32");
    return asked && std::string_view(asked) == "1";
  }();
  return allowed;
}

}  // namespace

const std::string& vendor_missing(Provided operation) {
  static const std::string none = "none: our own kernels are the only ones for it";
  return operation == Provided::matmul ? cublas::missing() : none;
}

bool vendor::multiply(Device device, DType dtype, const GemmProblem& problem, const void* a,
                      const void* b, const void* bias, void* out, Where where) {
  const auto has_unit_stride = [](std::int64_t row, std::int64_t column) {
    return row == 1 || column == 1;
  };
  if (!has_unit_stride(problem.a_row, problem.a_column) ||
      !has_unit_stride(problem.b_row, problem.b_column))
    return false;
  return cublas::multiply(device, dtype, problem, a, b, bias, out, is_tf32(), where);
}

void vendor::set_tf32(bool allowed) { tf32() = allowed; }
bool vendor::is_tf32() { return tf32(); }

}  // namespace ringrad::kernels
