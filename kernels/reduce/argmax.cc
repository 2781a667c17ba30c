#include "ringrad/kernels/reduce/argmax.h"

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/reduce/argmax_cpu.h"
#include "ringrad/kernels/reduce/argmax_cuda.h"

namespace ringrad::kernels {
namespace {

struct Search {
  const char* operation;
  void (*on_cpu)(const Tensor&, const cpu::Positions&, std::int64_t* result);
  void (*on_cuda)(const Tensor&, const ReducePlan&, std::int64_t* result, Where where);
};
constexpr Search kArgmax = {"argmax", cpu::argmax, cuda::argmax},
                 kArgmin = {"argmin", cpu::argmin, cuda::argmin};

Tensor find(const Search& search, const Tensor& x, std::optional<std::int64_t> axis, bool keepdim,
            Where where) {
  cpu::Positions positions;
  Shape shape = Shape::filled(keepdim ? x.dims() : 0, 1);
  if (axis) {
    const int a = normalize_axis(search.operation, *axis, x.dims(), where);
    for (int i = 0; i < a; ++i) positions.outer *= x.shape()[i];
    for (int i = a + 1; i < x.dims(); ++i) positions.inner *= x.shape()[i];
    positions.extent = x.shape()[a];
    shape = x.shape();
    keepdim ? void(shape[a] = 1) : shape.erase(a);
  } else {
    positions.extent = x.numel(where);
  }
  const Tensor result = empty(shape, {.dtype = DType::int64, .device = x.device()}, where);
  RINGRAD_CHECK(positions.extent > 0 || result.numel() == 0, ShapeError, where, search.operation,
                ": there must be an element to choose; got shape ", x.shape());
  if (result.numel() == 0) return result;
  const Tensor input = contiguous(x, where);
  if (x.device().is_cuda())
    search.on_cuda(input, make_reduce_plan(positions.outer, positions.extent, positions.inner),
                   result.device_data<std::int64_t>(), where);
  else
    search.on_cpu(input, positions, result.data<std::int64_t>());
  return result;
}

}  // namespace

Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis, bool keepdim, Where where) {
  return find(kArgmax, x, axis, keepdim, where);
}

Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis, bool keepdim, Where where) {
  return find(kArgmin, x, axis, keepdim, where);
}

}  // namespace ringrad::kernels
