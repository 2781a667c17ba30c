#include "ringrad/nn/layers/activation.h"

#include "ringrad/autograd/dropout.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"

namespace ringrad::nn {

Tensor ReLU::forward(const Tensor& x, Where at) { return relu(x, at); }

Tensor GELU::forward(const Tensor& x, Where at) { return gelu(x, at); }

Tensor Sigmoid::forward(const Tensor& x, Where at) { return sigmoid(x, at); }

Tensor Tanh::forward(const Tensor& x, Where at) { return tanh(x, at); }

Tensor SiLU::forward(const Tensor& x, Where at) { return silu(x, at); }

Tensor Softplus::forward(const Tensor& x, Where at) { return softplus(x, beta_, threshold_, at); }

Tensor LeakyReLU::forward(const Tensor& x, Where at) { return leaky_relu(x, slope_, at); }

Tensor ELU::forward(const Tensor& x, Where at) { return elu(x, alpha_, at); }

Hardtanh::Hardtanh(double low, double high, Where where) : low_(low), high_(high) {
  RINGRAD_CHECK(low <= high, ValueError, where, "Hardtanh: low must not exceed high; got ", low,
                " and ", high);
}

Tensor Hardtanh::forward(const Tensor& x, Where at) { return clamp(x, low_, high_, at); }

Tensor Flatten::forward(const Tensor& x, Where at) {
  RINGRAD_CHECK(x.dims() >= 1, ShapeError, at, "Flatten: the input must have a batch axis; got ",
                x.shape());
  const std::int64_t batch = x.shape()[0];
  return reshape(x, {batch, batch ? x.numel() / batch : 0}, at);
}

Dropout::Dropout(double p, Where where) : p_(p) {
  RINGRAD_CHECK(p >= 0 && p <= 1, ValueError, where,
                "Dropout: the probability must be in [0, 1]; got ", p);
}

Tensor Dropout::forward(const Tensor& x, Where at) {
  return dropout(x, p_, is_training(), default_generator(), at);
}

}  // namespace ringrad::nn
