#include "ringrad/nn/init.h"

#include <cmath>

#include "ringrad/autograd/grad_mode.h"

namespace ringrad::nn {
namespace {

double kaiming_deviation(const Tensor& weight, double slope, Fan fan, Where where) {
  const Fans fans = fans_of(weight.shape(), where);
  const auto count = static_cast<double>(fan == Fan::in ? fans.in : fans.out);
  if (count == 0) return 0;  // of an empty weight
  return std::sqrt(2 / (1 + slope * slope) / count);
}

double xavier_deviation(const Tensor& weight, double gain, Where where) {
  const Fans fans = fans_of(weight.shape(), where);
  const auto count = static_cast<double>(fans.in + fans.out);
  return count == 0 ? 0 : gain * std::sqrt(2 / count);
}

// Parameters are leaves that require a gradient, and their first values have no history.
void check_leaf(const char* operation, const Tensor& weight, Where where) {
  if (!weight.is_leaf(where)) weight.check_unrecorded(operation, where);
}

// A uniform distribution of this standard deviation.
void centred_uniform_(const char* operation, const Tensor& weight, double deviation,
                      Generator& generator, Where where) {
  check_leaf(operation, weight, where);
  const NoGradGuard guard;
  const double bound = std::sqrt(3.0) * deviation;
  uniform_(weight, -bound, bound, generator, where);
}

void centred_normal_(const char* operation, const Tensor& weight, double deviation,
                     Generator& generator, Where where) {
  check_leaf(operation, weight, where);
  const NoGradGuard guard;
  normal_(weight, 0, deviation, generator, where);
}

}  // namespace

Fans fans_of(const Shape& weight, Where where) {
  RINGRAD_CHECK(weight.size() >= 2, ShapeError, where,
                "init: fan_in and fan_out need at least two axes; got ", weight);
  std::int64_t taps = 1;
  for (int i = 2; i < weight.size(); ++i) taps *= weight[i];
  return {.in = weight[1] * taps, .out = weight[0] * taps};
}

void kaiming_uniform_(const Tensor& weight, double slope, Fan fan, Generator& generator,
                      Where where) {
  centred_uniform_("kaiming_uniform_", weight, kaiming_deviation(weight, slope, fan, where),
                   generator, where);
}

void kaiming_normal_(const Tensor& weight, double slope, Fan fan, Generator& generator,
                     Where where) {
  centred_normal_("kaiming_normal_", weight, kaiming_deviation(weight, slope, fan, where),
                  generator, where);
}

void xavier_uniform_(const Tensor& weight, double gain, Generator& generator, Where where) {
  centred_uniform_("xavier_uniform_", weight, xavier_deviation(weight, gain, where), generator,
                   where);
}

void xavier_normal_(const Tensor& weight, double gain, Generator& generator, Where where) {
  centred_normal_("xavier_normal_", weight, xavier_deviation(weight, gain, where), generator,
                  where);
}

}  // namespace ringrad::nn
