// Layers of filters: Conv1d over sequences, Conv2d over images, Conv3d over volumes, and their
// transposes.
//
// Weights and biases start from U(-1/sqrt(fan_in), 1/sqrt(fan_in)), where fan_in is the number of
// elements of weight[0], as in PyTorch.

#pragma once

#include "ringrad/autograd/convolution/convolution.h"
#include "ringrad/nn/module.h"

namespace ringrad::nn {

/// The options of Conv1d, Conv2d and Conv3d; each number applies to every axis.
struct Conv2dOptions {
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
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

/// The common part of convolution layers. They differ in the operator that they call and in the
/// number of its axes, for each of which the weight has one axis of extent `kernel`. An argument
/// `kernel` replaces that of the options: Conv2d(3, 64, 7, {.stride = 2}).
///
/// Parameters:  weight (out_channels, in_channels / groups, kernel, ...), of a transposed
///              convolution (in_channels, out_channels / groups, kernel, ...); bias (out_channels)
/// Throws:      ValueError unless the counts are positive and groups divides both channel counts
class Convolution : public Module {
 public:
  std::string describe() const override;

  Tensor weight;
  Tensor bias;  ///< undefined without bias

 protected:
  Convolution(const char* name, int axes, std::int64_t in_channels, std::int64_t out_channels,
              const Conv2dOptions& options, Where where);
  Convolution(const char* name, int axes, std::int64_t in_channels, std::int64_t out_channels,
              const ConvTransposeOptions& options, Where where);

  /// The numbers as the options of an operator.
  template <class Options>
  Options options_of() const;

 private:
  void make_parameters(int axes, std::int64_t first_channels, std::int64_t second_channels,
                       Where where);

  const char* name_;
  std::int64_t in_channels_, out_channels_;
  ConvTransposeOptions options_;
};

/// Shapes:  (B, in_channels, L)  ->  (B, out_channels, T)
class Conv1d : public Convolution {
 public:
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, const Conv2dOptions& options = {},
         Where where = Where::current())
      : Convolution("Conv1d", 1, in_channels, out_channels, options, where) {}
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
         Conv2dOptions options = {}, Where where = Where::current())
      : Conv1d(in_channels, out_channels, (options.kernel = kernel, options), where) {}

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
};

/// Shapes:  (B, in_channels, H, W)  ->  (B, out_channels, P, Q)
class Conv2d : public Convolution {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Conv2dOptions& options = {},
         Where where = Where::current())
      : Convolution("Conv2d", 2, in_channels, out_channels, options, where) {}
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
         Conv2dOptions options = {}, Where where = Where::current())
      : Conv2d(in_channels, out_channels, (options.kernel = kernel, options), where) {}

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
};

/// Shapes:  (B, in_channels, D, H, W)  ->  (B, out_channels, Z, P, Q)
class Conv3d : public Convolution {
 public:
  Conv3d(std::int64_t in_channels, std::int64_t out_channels, const Conv2dOptions& options = {},
         Where where = Where::current())
      : Convolution("Conv3d", 3, in_channels, out_channels, options, where) {}
  Conv3d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
         Conv2dOptions options = {}, Where where = Where::current())
      : Conv3d(in_channels, out_channels, (options.kernel = kernel, options), where) {}

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
};

/// Shapes:  (B, in_channels, T)  ->  (B, out_channels, L)
class ConvTranspose1d : public Convolution {
 public:
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels,
                  const ConvTransposeOptions& options = {}, Where where = Where::current())
      : Convolution("ConvTranspose1d", 1, in_channels, out_channels, options, where) {}
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
                  ConvTransposeOptions options = {}, Where where = Where::current())
      : ConvTranspose1d(in_channels, out_channels, (options.kernel = kernel, options), where) {}

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
};

/// Shapes:  (B, in_channels, P, Q)  ->  (B, out_channels, H, W)
class ConvTranspose2d : public Convolution {
 public:
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels,
                  const ConvTransposeOptions& options = {}, Where where = Where::current())
      : Convolution("ConvTranspose2d", 2, in_channels, out_channels, options, where) {}
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
                  ConvTransposeOptions options = {}, Where where = Where::current())
      : ConvTranspose2d(in_channels, out_channels, (options.kernel = kernel, options), where) {}

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
};

/// Shapes:  (B, in_channels, Z, P, Q)  ->  (B, out_channels, D, H, W)
class ConvTranspose3d : public Convolution {
 public:
  ConvTranspose3d(std::int64_t in_channels, std::int64_t out_channels,
                  const ConvTransposeOptions& options = {}, Where where = Where::current())
      : Convolution("ConvTranspose3d", 3, in_channels, out_channels, options, where) {}
  ConvTranspose3d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
                  ConvTransposeOptions options = {}, Where where = Where::current())
      : ConvTranspose3d(in_channels, out_channels, (options.kernel = kernel, options), where) {}

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
};

}  // namespace ringrad::nn
