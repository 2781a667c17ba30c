// The formulas of pointwise_loss.h and their derivatives with respect to x, for one element with
// target t and parameter w, for the CPU and for GPU kernels. Private to kernels/.

#pragma once

#include <cmath>

#include "ringrad/kernels/loss/pointwise_loss.h"

namespace ringrad::kernels {

struct SquaredError {
  static constexpr const char* kName = "mse_loss";
  static constexpr bool kWeighted = false;

  template <class T>
  static constexpr T value(T x, T t, T) {
    return (x - t) * (x - t);
  }
  template <class T>
  static constexpr T derivative(T x, T t, T) {
    return 2 * (x - t);
  }
};

struct AbsoluteError {
  static constexpr const char* kName = "l1_loss";
  static constexpr bool kWeighted = false;

  template <class T>
  static constexpr T value(T x, T t, T) {
    return std::abs(x - t);
  }
  template <class T>
  static constexpr T derivative(T x, T t, T) {
    const T error = x - t;
    return (error > 0 ? T{1} : T{0}) - (error < 0 ? T{1} : T{0});
  }
};

struct BinaryCrossEntropy {
  static constexpr const char* kName = "bce_with_logits";
  static constexpr bool kWeighted = true;

  // log(1 + exp(-x)) = log(1 + exp(-|x|)) + max(-x, 0): exp does not overflow.
  template <class T>
  static constexpr T value(T x, T t, T w) {
    const T softplus = std::log1p(std::exp(-std::abs(x))) + (x < 0 ? -x : T{0});
    return (1 - t) * x + (1 + (w - 1) * t) * softplus;
  }
  // d softplus(-x)/dx = -sigmoid(-x) = sigmoid(x) - 1. The terms are ordered so that w = 1 gives
  // sigmoid(x) - t.
  template <class T>
  static constexpr T derivative(T x, T t, T w) {
    const T sigmoid = 1 / (1 + std::exp(-x));
    return (sigmoid - t) + (w - 1) * t * (sigmoid - 1);
  }
};

struct Huber {
  static constexpr const char* kName = "huber_loss";
  static constexpr bool kWeighted = true;

  // The conditions let NaN through.
  template <class T>
  static constexpr T value(T x, T t, T w) {
    const T distance = std::abs(x - t);
    return distance > w ? w * (distance - w / 2) : distance * distance / 2;
  }
  template <class T>
  static constexpr T derivative(T x, T t, T w) {
    const T error = x - t;
    return error > w ? w : (error < -w ? -w : error);
  }
};

struct SmoothAbsoluteError {
  static constexpr const char* kName = "smooth_l1_loss";
  static constexpr bool kWeighted = true;

  template <class T>
  static constexpr T value(T x, T t, T w) {
    const T distance = std::abs(x - t);
    return distance > w ? distance - w / 2 : distance * (distance / w) / 2;
  }
  template <class T>
  static constexpr T derivative(T x, T t, T w) {
    const T error = x - t;
    return error > w ? T{1} : (error < -w ? T{-1} : error / w);
  }
};

struct KullbackLeibler {
  static constexpr const char* kName = "kl_div";
  static constexpr bool kWeighted = false;

  template <class T>
  static constexpr T value(T x, T t, T) {
    const T entropy = t * std::log(t);
    return (t == 0 ? T{0} : entropy) - t * x;
  }
  template <class T>
  static constexpr T derivative(T, T t, T) {
    return -t;
  }
};

struct KullbackLeiblerOfLogs {
  static constexpr const char* kName = "kl_div";
  static constexpr bool kWeighted = false;

  template <class T>
  static constexpr T value(T x, T t, T) {
    return std::exp(t) * (t - x);
  }
  template <class T>
  static constexpr T derivative(T, T t, T) {
    return -std::exp(t);
  }
};

/// Returns body(formula), with the formula of `loss`.
template <class Body>
auto dispatch_loss(PointwiseLoss loss, Body body) {
  switch (loss) {
    case PointwiseLoss::mse:
      return body(SquaredError());
    case PointwiseLoss::l1:
      return body(AbsoluteError());
    case PointwiseLoss::bce_with_logits:
      return body(BinaryCrossEntropy());
    case PointwiseLoss::huber:
      return body(Huber());
    case PointwiseLoss::smooth_l1:
      return body(SmoothAbsoluteError());
    case PointwiseLoss::kl_div:
      return body(KullbackLeibler());
    case PointwiseLoss::kl_div_log:
      break;
  }
  return body(KullbackLeiblerOfLogs());
}

}  // namespace ringrad::kernels
