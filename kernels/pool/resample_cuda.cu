// Resampling on a GPU: one thread per element of the result.

#include "ringrad/core/dtype.h"
#include "ringrad/kernels/per_element.cuh"
#include "ringrad/kernels/pool/resample_axis.h"

namespace ringrad::kernels::cuda {
namespace {

// y[image, p, q, c]; neighbouring threads have neighbouring (q, c). Bound: bandwidth.
template <class T>
__global__ void resample_element_per_thread(ResampleGeometry g, const T* x, T* y) {
  using Math = MathType<T>;
  for (const std::int64_t i : own_elements(g.num_outputs())) {
    const std::int64_t c = i % g.C, pixel = i / g.C;
    const auto column = g.columns.place(pixel % g.columns.outputs);
    const std::int64_t line = pixel / g.columns.outputs;
    const auto row = g.rows.place(line % g.rows.outputs);
    const T* image = x + line / g.rows.outputs * g.rows.inputs * g.columns.inputs * g.C + c;
    const auto blended = [&](std::int64_t w) {
      const Math a = image[(row.low * g.columns.inputs + w) * g.C];
      if (row.weight == 0) return a;
      const Math b = image[(row.high * g.columns.inputs + w) * g.C];
      const auto weight = static_cast<Math>(row.weight);
      return (1 - weight) * a + weight * b;
    };
    Math value = blended(column.low);
    if (column.weight != 0) {
      const auto weight = static_cast<Math>(column.weight);
      value = (1 - weight) * value + weight * blended(column.high);
    }
    y[i] = T(value);
  }
}

// grad_x[image, h, w, c]: an input adds to few outputs unless the image grows much. Bound:
// bandwidth.
template <class T>
__global__ void sum_outputs_of_element_per_thread(ResampleGeometry g, const T* grad_y, T* grad_x) {
  using Math = MathType<T>;
  for (const std::int64_t i : own_elements(g.num_inputs())) {
    const std::int64_t c = i % g.C, pixel = i / g.C;
    const std::int64_t w = pixel % g.columns.inputs, line = pixel / g.columns.inputs;
    const std::int64_t h = line % g.rows.inputs, image = line / g.rows.inputs;
    const std::int64_t q_begin = g.columns.first_output(w), q_end = g.columns.end_output(w);
    const std::int64_t p_end = g.rows.end_output(h);
    Math sum = 0;
    for (std::int64_t p = g.rows.first_output(h); p < p_end; ++p) {
      const auto row_weight = static_cast<Math>(g.rows.place(p).weight_of(h));
      if (row_weight == 0) continue;
      const T* row = grad_y + (image * g.rows.outputs + p) * g.columns.outputs * g.C + c;
      for (std::int64_t q = q_begin; q < q_end; ++q)
        if (const auto weight = static_cast<Math>(g.columns.place(q).weight_of(w)); weight != 0)
          sum += row_weight * weight * static_cast<Math>(row[q * g.C]);
    }
    grad_x[i] = T(sum);
  }
}

LaunchConfig config_for(const char* name, std::int64_t elements, const Tensor& from,
                        const Tensor& to) {
  const auto bytes = static_cast<double>(size_bytes(from.dtype())) *
                     static_cast<double>(from.numel() + to.numel());
  return thread_per_element(name, elements, bytes);
}

}  // namespace

void resample(const ResampleGeometry& g, const Tensor& x, const Tensor& y, Where where) {
  dispatch_floating(x.dtype(), [&]<class T>() {
    launch_on(x.device(), config_for("resample", g.num_outputs(), x, y), where,
              resample_element_per_thread<T>, g, x.device_data<T>(), y.device_data<T>());
  });
}

void resample_backward(const ResampleGeometry& g, const Tensor& grad_y, const Tensor& grad_x,
                       Where where) {
  dispatch_floating(grad_y.dtype(), [&]<class T>() {
    launch_on(grad_y.device(), config_for("resample_backward", g.num_inputs(), grad_y, grad_x),
              where, sum_outputs_of_element_per_thread<T>, g, grad_y.device_data<T>(),
              grad_x.device_data<T>());
  });
}

}  // namespace ringrad::kernels::cuda
