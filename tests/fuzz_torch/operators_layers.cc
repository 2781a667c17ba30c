#include "ringrad/autograd/attention/attention.h"
#include "ringrad/autograd/attention/rotary_embedding.h"
#include "ringrad/autograd/convolution/convolution.h"
#include "ringrad/autograd/convolution/interpolate.h"
#include "ringrad/autograd/convolution/pool.h"
#include "ringrad/autograd/norm/batch_norm.h"
#include "ringrad/autograd/norm/group_norm.h"
#include "ringrad/autograd/norm/layer_norm.h"
#include "ringrad/autograd/norm/rms_norm.h"
#include "ringrad/tests/fuzz_torch/arguments.h"

namespace ringrad::fuzz_torch {
namespace {

// One number for both axes of an image, or for all of a volume.
std::array<std::int64_t, 2> both(Arguments number) {
  const std::int64_t value = number;
  return {value, value};
}
std::array<std::int64_t, 3> all(Arguments number) {
  const std::int64_t value = number;
  return {value, value, value};
}

Operators convolutions() {
  return {
      {"conv1d",
       [](In in, Arguments with) {
         return conv1d(in[0], in[1], in[2],
                       {.stride = with["stride"],
                        .padding = with["padding"],
                        .dilation = with["dilation"],
                        .groups = with["groups"]});
       }},
      {"conv2d",
       [](In in, Arguments with) {
         return conv2d(in[0], in[1], in[2],
                       {.stride = both(with["stride"]),
                        .padding = both(with["padding"]),
                        .dilation = both(with["dilation"]),
                        .groups = with["groups"]});
       }},
      {"conv3d",
       [](In in, Arguments with) {
         return conv3d(in[0], in[1], in[2],
                       {.stride = all(with["stride"]),
                        .padding = all(with["padding"]),
                        .dilation = all(with["dilation"]),
                        .groups = with["groups"]});
       }},
      {"conv_transpose1d",
       [](In in, Arguments with) {
         return conv_transpose1d(in[0], in[1], in[2],
                                 {.stride = with["stride"],
                                  .padding = with["padding"],
                                  .output_padding = with["output_padding"],
                                  .dilation = with["dilation"],
                                  .groups = with["groups"]});
       }},
      {"conv_transpose2d",
       [](In in, Arguments with) {
         return conv_transpose2d(in[0], in[1], in[2],
                                 {.stride = both(with["stride"]),
                                  .padding = both(with["padding"]),
                                  .output_padding = both(with["output_padding"]),
                                  .dilation = both(with["dilation"]),
                                  .groups = with["groups"]});
       }},
      {"conv_transpose3d",
       [](In in, Arguments with) {
         return conv_transpose3d(in[0], in[1], in[2],
                                 {.stride = all(with["stride"]),
                                  .padding = all(with["padding"]),
                                  .output_padding = all(with["output_padding"]),
                                  .dilation = all(with["dilation"]),
                                  .groups = with["groups"]});
       }},
  };
}

Pool1dOptions pool1d_of(Arguments with) {
  return {.kernel = with["kernel"],
          .stride = with["stride"],
          .padding = with["padding"],
          .count_include_pad = with["count_include_pad"]};
}

Pool2dOptions pool2d_of(Arguments with) {
  return {.kernel = both(with["kernel"]),
          .stride = both(with["stride"]),
          .padding = both(with["padding"]),
          .count_include_pad = with["count_include_pad"]};
}

Pool3dOptions pool3d_of(Arguments with) {
  return {.kernel = all(with["kernel"]),
          .stride = all(with["stride"]),
          .padding = all(with["padding"]),
          .count_include_pad = with["count_include_pad"]};
}

Operators windows() {
  return {
      {"max_pool1d", [](In in, Arguments with) { return max_pool1d(in[0], pool1d_of(with)); }},
      {"avg_pool1d", [](In in, Arguments with) { return avg_pool1d(in[0], pool1d_of(with)); }},
      {"max_pool2d", [](In in, Arguments with) { return max_pool2d(in[0], pool2d_of(with)); }},
      {"avg_pool2d", [](In in, Arguments with) { return avg_pool2d(in[0], pool2d_of(with)); }},
      {"max_pool3d", [](In in, Arguments with) { return max_pool3d(in[0], pool3d_of(with)); }},
      {"avg_pool3d", [](In in, Arguments with) { return avg_pool3d(in[0], pool3d_of(with)); }},
      {"adaptive_avg_pool2d",
       [](In in, Arguments with) {
         return adaptive_avg_pool2d(in[0], {with["size"][0], with["size"][1]});
       }},
      {"interpolate",
       [](In in, Arguments with) {
         InterpolateOptions options{
             .mode = with["mode"] == "nearest" ? Interpolation::nearest : Interpolation::bilinear,
             .align_corners = with["align_corners"]};
         if (with.contains("scale"))
           options.scale = {with["scale"], with["scale"]};
         else
           options.size = {with["size"][0], with["size"][1]};
         return interpolate(in[0], options);
       }},
  };
}

Operators norms_and_attention() {
  return {
      {"layer_norm", [](In in, Arguments) { return layer_norm(in[0], in[1], in[2]); }},
      {"rms_norm", [](In in, Arguments) { return rms_norm(in[0], in[1]); }},
      {"group_norm",
       [](In in, Arguments with) { return group_norm(in[0], with["groups"], in[1], in[2]); }},
      {"instance_norm", [](In in, Arguments) { return instance_norm(in[0], in[1], in[2]); }},
      {"batch_norm", [](In in, Arguments) { return batch_norm(in[0], in[1], in[2], {}, {}, {}); }},
      {"batch_norm_relu",
       [](In in, Arguments) {
         return batch_norm(in[0], in[1], in[2], {}, {}, {.relu = true}, in[3]);
       }},
      {"batch_norm_evaluation",
       [](In in, Arguments) {
         const Tensor mean = full(in[1].shape(), 0.5, {.dtype = in[1].dtype()});
         const Tensor var = full(in[1].shape(), 2, {.dtype = in[1].dtype()});
         return batch_norm(in[0], in[1], in[2], mean, var, {.training = false});
       }},
      {"scaled_dot_product_attention",
       [](In in, Arguments with) {
         return scaled_dot_product_attention(in[0], in[1], in[2],
                                             {.mask = in.size() > 3 ? in[3] : Tensor(),
                                              .causal = with["causal"].get<bool>(),
                                              .scale = with["scale"].get<double>()});
       }},
      {"rotary_embedding",
       [](In in, Arguments with) {
         return rotary_embedding(
             in[0], {.offset = with["offset"], .interleaved = with["interleaved"].get<bool>()});
       }},
  };
}

}  // namespace

Operators layer_operators() {
  Operators result = convolutions();
  result.merge(windows());
  result.merge(norms_and_attention());
  return result;
}

}  // namespace ringrad::fuzz_torch
