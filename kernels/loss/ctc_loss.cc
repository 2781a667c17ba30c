#include "ringrad/kernels/loss/ctc_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();  // the logarithm of 0

double log_add(double a, double b) {
  if (a != a || b != b) return a + b;  // std::max may drop a NaN
  const double larger = std::max(a, b);
  return larger == kNever ? kNever : larger + std::log1p(std::exp(std::min(a, b) - larger));
}

/// One example: its frames, and the states that spell its target.
struct Example {
  const double* x;               // frame t begins at x + t * frame_stride
  std::int64_t frame_stride, T;  // T: frames of this example
  std::vector<std::int64_t> z;   // the class of each state

  double at(std::int64_t t, std::size_t s) const { return x[t * frame_stride + z[s]]; }
  /// True if a path may go from state s - 2 to s.
  bool may_skip_to(std::size_t s) const { return s >= 2 && z[s] != z[0] && z[s] != z[s - 2]; }
};

/// alpha[t * states + s].
std::vector<double> forward_sums(const Example& e) {
  const std::size_t states = e.z.size();
  std::vector<double> alpha(static_cast<std::size_t>(e.T) * states, kNever);
  if (e.T == 0) return alpha;
  for (std::size_t s = 0; s < std::min<std::size_t>(2, states); ++s) alpha[s] = e.at(0, s);
  for (std::int64_t t = 1; t < e.T; ++t) {
    double* now = alpha.data() + static_cast<std::size_t>(t) * states;
    const double* before = now - states;
    for (std::size_t s = 0; s < states; ++s) {
      double sum = before[s];
      if (s >= 1) sum = log_add(sum, before[s - 1]);
      if (e.may_skip_to(s)) sum = log_add(sum, before[s - 2]);
      now[s] = sum + e.at(t, s);
    }
  }
  return alpha;
}

double loss_of(const Example& e, const std::vector<double>& alpha) {
  const std::size_t states = e.z.size();
  if (e.T == 0) return states == 1 ? 0 : -kNever;  // no frames spell only the empty target
  const double* last = alpha.data() + alpha.size() - states;
  return -(states == 1 ? last[0] : log_add(last[states - 1], last[states - 2]));
}

/// Adds the occupancies of all frames; out has the strides of x.
void add_occupancies(const Example& e, const std::vector<double>& alpha, double loss, double* out) {
  const std::size_t states = e.z.size();
  std::vector<double> beta(states, kNever), arrival(states);  // arrival: beta + x of one frame
  for (std::size_t s = states - std::min<std::size_t>(2, states); s < states; ++s) beta[s] = 0;
  for (std::int64_t t = e.T - 1; t >= 0; --t) {
    for (std::size_t s = 0; s < states; ++s)
      out[t * e.frame_stride + e.z[s]] +=
          std::exp(alpha[static_cast<std::size_t>(t) * states + s] + beta[s] + loss);
    for (std::size_t s = 0; s < states; ++s) arrival[s] = beta[s] + e.at(t, s);
    for (std::size_t s = 0; s < states; ++s) {
      beta[s] = arrival[s];
      if (s + 1 < states) beta[s] = log_add(beta[s], arrival[s + 1]);
      if (s + 2 < states && e.may_skip_to(s + 2)) beta[s] = log_add(beta[s], arrival[s + 2]);
    }
  }
}

void check_shapes(const Tensor& x, const Tensor& targets, const Tensor& input_lengths,
                  const Tensor& target_lengths, std::int64_t blank, Where where) {
  constexpr const char* kName = "ctc_loss";
  check_floating(kName, x, where);
  RINGRAD_CHECK(x.device().is_cpu(), DeviceError, where, "ctc_loss: tensors must be on a CPU; got ",
                x.device());
  RINGRAD_CHECK(x.dims() == 3, ShapeError, where,
                "ctc_loss: log_probabilities must be (T, B, C); got ", x.shape());
  for (const Tensor* integers : {&targets, &input_lengths, &target_lengths}) {
    check_same_device(kName, x, *integers, where);
    const DType dtype = integers->dtype();
    RINGRAD_CHECK(dtype == DType::int32 || dtype == DType::int64, DTypeError, where,
                  "ctc_loss: targets and lengths must be int32 or int64; got ", dtype);
  }
  const Shape batch{x.shape()[1]};
  RINGRAD_CHECK(targets.dims() == 2 && targets.shape()[0] == batch[0] &&
                    input_lengths.shape() == batch && target_lengths.shape() == batch,
                ShapeError, where,
                "ctc_loss: targets must be (B, S), and lengths (B); got log_probabilities ",
                x.shape(), ", targets ", targets.shape(), ", input_lengths ", input_lengths.shape(),
                ", target_lengths ", target_lengths.shape());
  RINGRAD_CHECK(blank >= 0 && blank < x.shape()[2], IndexError, where,
                "ctc_loss: blank must be one of ", x.shape()[2], " classes; got ", blank);
}

std::span<const std::int64_t> integers_of(const Tensor& x) {
  return {x.data<const std::int64_t>(), static_cast<std::size_t>(x.numel())};
}

void check_lengths(const char* what, std::span<const std::int64_t> lengths, std::int64_t most,
                   Where where) {
  for (const std::int64_t length : lengths)
    RINGRAD_CHECK(length >= 0 && length <= most, ValueError, where, "ctc_loss: ", what,
                  " must be in [0, ", most, "]; got ", length);
}

/// The states of a target: its labels between blanks.
std::vector<std::int64_t> states_of(std::span<const std::int64_t> labels, std::int64_t blank,
                                    std::int64_t num_classes, Where where) {
  std::vector<std::int64_t> z{blank};
  for (const std::int64_t label : labels) {
    RINGRAD_CHECK(label >= 0 && label < num_classes && label != blank, IndexError, where,
                  "ctc_loss: targets must be classes in [0, ", num_classes, ") other than blank ",
                  blank, "; got ", label);
    z.insert(z.end(), {label, blank});
  }
  return z;
}

}  // namespace

CTCResult ctc_loss(const Tensor& log_probabilities, const Tensor& targets,
                   const Tensor& input_lengths, const Tensor& target_lengths, std::int64_t blank,
                   Where where) {
  check_shapes(log_probabilities, targets, input_lengths, target_lengths, blank, where);
  const Shape& shape = log_probabilities.shape();
  const std::int64_t T = shape[0], B = shape[1], C = shape[2], S = targets.shape()[1];
  const Tensor x = contiguous(cast(log_probabilities, DType::float64, where), where);
  const auto as_int64 = [&](const Tensor& t) {
    return contiguous(cast(t, DType::int64, where), where);
  };
  const Tensor label_tensor = as_int64(targets), frame_tensor = as_int64(input_lengths),
               length_tensor = as_int64(target_lengths);
  const auto labels = integers_of(label_tensor), frames = integers_of(frame_tensor),
             lengths = integers_of(length_tensor);
  check_lengths("input_lengths", frames, T, where);
  check_lengths("target_lengths", lengths, S, where);

  std::vector<Example> examples;
  for (std::size_t b = 0; b < frames.size(); ++b)
    examples.push_back({.x = x.data<const double>() + static_cast<std::int64_t>(b) * C,
                        .frame_stride = B * C,
                        .T = frames[b],
                        .z = states_of(labels.subspan(b * static_cast<std::size_t>(S),
                                                      static_cast<std::size_t>(lengths[b])),
                                       blank, C, where)});
  const Options options{.dtype = DType::float64, .device = x.device()};
  const Tensor losses = empty({B}, options, where), occupancies = zeros(shape, options, where);
  double *loss = losses.data<double>(), *occupancy = occupancies.data<double>();
  constexpr std::int64_t kGrain = 1 << 10;  // states of all frames per piece
  const std::int64_t grain = 1 + kGrain / std::max<std::int64_t>(1, T * (2 * S + 1));
  parallel_for(B, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const Example& example = examples[static_cast<std::size_t>(b)];
      const std::vector<double> alpha = forward_sums(example);
      loss[b] = loss_of(example, alpha);
      add_occupancies(example, alpha, loss[b], occupancy + b * C);
    }
  });
  const DType dtype = log_probabilities.dtype();
  return {cast(losses, dtype, where), cast(occupancies, dtype, where)};
}

}  // namespace ringrad::kernels
