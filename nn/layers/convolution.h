// Layers of filters: Conv2d over images, Conv1d over sequences, and their transposes.
//
// Weights and biases start from U(-1/sqrt(fan_in), 1/sqrt(fan_in)), where fan_in is the number of
// elements of weight[0], as in PyTorch.

#pragma once

#include "ringrad/autograd/convolution/convolution.h"
#include "ringrad/nn/module.h"

namespace ringrad::nn {

/// The options of a Conv2d or a Conv1d; each number applies to every axis.
struct Conv2dOptions {
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

/// Parameters:  weight (out_channels, in_channels / groups, kernel, kernel), bias (out_channels)
/// Shapes:      (B, in_channels, H, W)  ->  (B, out_channels, P, Q)
/// Throws:      ValueError unless the counts are positive and groups divides both channel counts
class Conv2d : public Module {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Conv2dOptions& options = {},
         Where where = Where::current());
  /// `kernel` replaces that of the options: Conv2d(3, 64, 7, {.stride = 2}).
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
         Conv2dOptions options = {}, Where where = Where::current())
      : Conv2d(in_channels, out_channels, (options.kernel = kernel, options), where) {}

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

  Tensor weight;
  Tensor bias;  ///< undefined without bias

 private:
  Conv2dOptions options_;
};

/// Parameters:  weight (out_channels, in_channels / groups, kernel), bias (out_channels)
/// Shapes:      (B, in_channels, L)  ->  (B, out_channels, T)
/// Throws:      as Conv2d
class Conv1d : public Module {
 public:
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, const Conv2dOptions& options = {},
         Where where = Where::current());
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
         Conv2dOptions options = {}, Where where = Where::current())
      : Conv1d(in_channels, out_channels, (options.kernel = kernel, options), where) {}

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

  Tensor weight;
  Tensor bias;  ///< undefined without bias

 private:
  Conv2dOptions options_;
};

/// The options of a transposed convolution; each number applies to every axis.
struct ConvTransposeOptions {
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t output_padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

/// Parameters:  weight (in_channels, out_channels / groups, kernel, kernel), bias (out_channels)
/// Shapes:      (B, in_channels, P, Q)  ->  (B, out_channels, H, W)
/// Throws:      as Conv2d
class ConvTranspose2d : public Module {
 public:
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels,
                  const ConvTransposeOptions& options = {}, Where where = Where::current());
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
                  ConvTransposeOptions options = {}, Where where = Where::current())
      : ConvTranspose2d(in_channels, out_channels, (options.kernel = kernel, options), where) {}

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

  Tensor weight;
  Tensor bias;  ///< undefined without bias

 private:
  ConvTransposeOptions options_;
};

/// Parameters:  weight (in_channels, out_channels / groups, kernel), bias (out_channels)
/// Shapes:      (B, in_channels, T)  ->  (B, out_channels, L)
/// Throws:      as Conv2d
class ConvTranspose1d : public Module {
 public:
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels,
                  const ConvTransposeOptions& options = {}, Where where = Where::current());
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
                  ConvTransposeOptions options = {}, Where where = Where::current())
      : ConvTranspose1d(in_channels, out_channels, (options.kernel = kernel, options), where) {}

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
  std::string describe() const override;

  Tensor weight;
  Tensor bias;  ///< undefined without bias

 private:
  ConvTransposeOptions options_;
};

}  // namespace ringrad::nn
