#include "ringrad/autograd/loss/embedding_loss.h"

#include <cmath>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/check_fits.h"

namespace ringrad {
namespace {

Tensor reduced(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

void check_rows(const char* operation, const Tensor& a, const Tensor& b, Where where) {
  check_floating(operation, a, where);
  check_same_dtype(operation, a, b, where);
  check_same_device(operation, a, b, where);
  RINGRAD_CHECK(a.dims() >= 1 && a.shape() == b.shape(), ShapeError, where, operation,
                ": rows must have one shape and at least one axis; got ", a.shape(), " and ",
                b.shape());
}

Tensor sum_of_row(const Tensor& x) { return sum(x, {-1}); }

// In 16 bits a sum of squares may overflow, and eps may vanish beside a - b.
bool is_narrow(const Tensor& x) { return size_bytes(x.dtype()) == 2; }
Tensor wide(const Tensor& x, Where where) { return to(x, DType::float32, where); }

// vector_norm has a gradient of 0 at 0.
Tensor distance(const Tensor& a, const Tensor& b, double p, double eps) {
  const Tensor difference = a - b + eps;
  if (p == 1 || p == 2 || std::isinf(p)) return vector_norm(difference, p, {-1});
  return pow(sum_of_row(pow(abs(difference), p)), 1 / p);
}

}  // namespace

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& targets, double margin,
                             Reduction reduction, Where where) {
  constexpr const char* kName = "cosine_embedding_loss";
  constexpr double kEps = 1e-12;
  const auto of_wide = [&](const auto&... rows) {
    return cosine_embedding_loss(rows..., targets, margin, reduction, where);
  };
  if (autocasting()) return with_widened(where, of_wide, a, b);
  check_rows(kName, a, b, where);
  check_finite(kName, "margin", margin, where);
  check_same_device(kName, a, targets, where);
  RINGRAD_CHECK(a.dims() <= 2 && targets.shape() == (a.dims() == 2 ? Shape{a.shape()[0]} : Shape{}),
                ShapeError, where, kName,
                ": rows must be (B, D) or (D), with one target each; got rows ", a.shape(),
                " and targets ", targets.shape());
  if (is_narrow(a)) return to(of_wide(wide(a, where), wide(b, where)), a.dtype(), where);
  const auto squares = [](const Tensor& x) { return sum_of_row(square(x)) + kEps; };
  const Tensor cosine = sum_of_row(a * b) / sqrt(squares(a) * squares(b));
  const Tensor losses = ringrad::where(targets == 1, 1 - cosine,
                                       ringrad::where(targets == -1, relu(cosine - margin), 0));
  return reduced(losses, reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options, Where where) {
  constexpr const char* kName = "triplet_margin_loss";
  const auto of_wide = [&](const auto&... rows) {
    return triplet_margin_loss(rows..., options, where);
  };
  if (autocasting()) return with_widened(where, of_wide, anchor, positive, negative);
  check_rows(kName, anchor, positive, where);
  check_rows(kName, anchor, negative, where);
  RINGRAD_CHECK(options.p > 0, ValueError, where, kName, ": p must be positive; got ", options.p);
  check_finite(kName, "margin", options.margin, where);
  check_finite(kName, "eps", options.eps, where);
  if (is_narrow(anchor))
    return to(of_wide(wide(anchor, where), wide(positive, where), wide(negative, where)),
              anchor.dtype(), where);
  const auto between = [&](const Tensor& a, const Tensor& b) {
    return distance(a, b, options.p, options.eps);
  };
  Tensor apart = between(anchor, negative);
  if (options.swap) apart = minimum(apart, between(positive, negative));
  return reduced(relu(between(anchor, positive) - apart + options.margin), options.reduction);
}

}  // namespace ringrad
