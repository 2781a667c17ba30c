#include "ringrad/kernels/dispatch_math.h"
#include "ringrad/kernels/elementwise/dropout.h"
#include "ringrad/kernels/elementwise/map_cuda.cuh"

namespace ringrad::kernels::cuda {
namespace {

template <class Math>
struct Select {
  Math scale;
  constexpr Math operator()(Math x, std::uint8_t keep) const { return keep != 0 ? x * scale : 0; }
};

}  // namespace

void apply_mask(const Tensor& x, const Tensor& mask, double scale, const Tensor& y, Where where) {
  dispatch_math(x.dtype(), [&]<class Math>() {
    map<Math, Math, std::uint8_t>("apply_mask", Select<Math>{static_cast<Math>(scale)}, y,
                                  {&x, &mask}, where);
  });
}

}  // namespace ringrad::kernels::cuda
