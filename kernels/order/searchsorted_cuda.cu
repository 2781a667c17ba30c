#include "ringrad/kernels/order/order_key.h"
#include "ringrad/kernels/order/searchsorted.h"
#include "ringrad/kernels/per_element.cuh"

namespace ringrad::kernels::cuda {
namespace {

// One value per thread. Bound: latency of log2(n) reads.
template <class T>
__global__ void search_value_per_thread(const T* sorted, std::int64_t n, const T* values,
                                        std::int64_t count, std::int64_t per_line, bool right,
                                        std::int64_t* places) {
  for (const std::int64_t i : own_elements(count))
    places[i] = place_in(sorted + i / per_line * n, n, values[i], right);
}

}  // namespace

void searchsorted(const Tensor& sorted, const Tensor& values, std::int64_t per_line, bool right,
                  const Tensor& places, Where where) {
  const std::int64_t count = values.numel();
  dispatch_dtype(sorted.dtype(), [&]<class T>() {
    launch_on(sorted.device(), thread_per_element("searchsorted", count), where,
              search_value_per_thread<T>, sorted.device_data<T>(), sorted.shape().back(),
              values.device_data<T>(), count, per_line, right, places.device_data<std::int64_t>());
  });
}

}  // namespace ringrad::kernels::cuda
