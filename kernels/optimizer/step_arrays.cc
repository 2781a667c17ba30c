#include "ringrad/kernels/optimizer/step_arrays.h"

namespace ringrad::kernels {
namespace {

// Checks an array that is processed element by element with the parameters.
void check_array(const char* operation, const char* what, const Tensor& array,
                 const Tensor& parameters, DType dtype, Where where) {
  RINGRAD_CHECK(array.dtype() == dtype, DTypeError, where, operation, ": ", what, " must be ",
                dtype, " for parameters of ", parameters.dtype(), "; got ", array.dtype());
  check_same_device(operation, parameters, array, where);
  RINGRAD_CHECK(array.numel() == parameters.numel() && array.is_contiguous(), ShapeError, where,
                operation, ": ", what,
                " must be contiguous and of as many elements as parameters; got ", array.shape(),
                " and ", parameters.shape());
}

}  // namespace

DType optimizer_state_dtype(DType dtype) {
  return dtype == DType::float64 ? DType::float64 : DType::float32;
}

void check_step_arrays(const char* operation, const Tensor& parameters, const Tensor& gradients,
                       Where where) {
  check_floating(operation, parameters, where);
  check_array(operation, "parameters", parameters, parameters, parameters.dtype(), where);
  check_array(operation, "gradients", gradients, parameters, parameters.dtype(), where);
}

void check_step_state(const char* operation, const char* what, const Tensor& state,
                      const Tensor& parameters, Where where) {
  check_array(operation, what, state, parameters, optimizer_state_dtype(parameters.dtype()), where);
}

}  // namespace ringrad::kernels
