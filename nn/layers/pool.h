// Pooling layers: the largest or the mean value of each window; (B, C, H, W) -> (B, C, P, Q), or
// (B, C, L) -> (B, C, T).

#pragma once

#include "ringrad/autograd/convolution/pool.h"
#include "ringrad/nn/module.h"

namespace ringrad::nn {

/// Windows of kernel x kernel, or of kernel; stride 0 means stride = kernel.
struct Pool2dOptions {
  std::int64_t stride = 0;
  std::int64_t padding = 0;
};

class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(std::int64_t kernel, const Pool2dOptions& options = {});
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

 private:
  ringrad::Pool2dOptions options_;
};

class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(std::int64_t kernel, const Pool2dOptions& options = {});
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

 private:
  ringrad::Pool2dOptions options_;
};

class MaxPool1d : public Module {
 public:
  explicit MaxPool1d(std::int64_t kernel, const Pool2dOptions& options = {});
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

 private:
  ringrad::Pool1dOptions options_;
};

class AvgPool1d : public Module {
 public:
  explicit AvgPool1d(std::int64_t kernel, const Pool2dOptions& options = {});
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

 private:
  ringrad::Pool1dOptions options_;
};

/// Pools an input of any size to output_size x output_size.
class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(std::int64_t output_size) : output_size_(output_size) {}
  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

 private:
  std::int64_t output_size_;
};

}  // namespace ringrad::nn
