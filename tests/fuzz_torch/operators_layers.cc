#include "ringrad/autograd/attention/attention.h"
#include "ringrad/autograd/attention/rotary_embedding.h"
#include "ringrad/autograd/convolution/convolution.h"
#include "ringrad/autograd/convolution/interpolate.h"
#include "ringrad/autograd/convolution/pool.h"
#include "ringrad/autograd/norm/batch_norm.h"
#include "ringrad/autograd/norm/group_norm.h"
#include "ringrad/autograd/norm/row_norm.h"
#include "ringrad/tests/fuzz_torch/arguments.h"

namespace ringrad::fuzz_torch {
namespace {

std::int64_t number(Arguments argument) { return argument; }

template <class Options>
Options convolution_of(Arguments with) {
  Options options;
  options.stride = number(with["stride"]);
  options.padding = number(with["padding"]);
  options.dilation = number(with["dilation"]);
  options.groups = with["groups"];
  if constexpr (requires { options.output_padding; })
    options.output_padding = number(with["output_padding"]);
  return options;
}

// The operator's program for the test.
template <class Options>
auto convolution(Tensor (*run)(const Tensor&, const Tensor&, const Tensor&, const Options&,
                               Where)) {
  return [run](In in, Arguments with) {
    return run(in[0], in[1], in[2], convolution_of<Options>(with), Where::current());
  };
}

template <std::size_t N>
auto pool(Tensor (*run)(const Tensor&, const PoolOptions<N>&, Where)) {
  return [run](In in, Arguments with) {
    const PoolOptions<N> options{.kernel = number(with["kernel"]),
                                 .stride = number(with["stride"]),
                                 .padding = number(with["padding"]),
                                 .count_include_pad = with["count_include_pad"]};
    return run(in[0], options, Where::current());
  };
}

Operators convolutions() {
  return {
      {"conv1d", convolution(conv1d)},
      {"conv2d", convolution(conv2d)},
      {"conv3d", convolution(conv3d)},
      {"conv_transpose1d", convolution(conv_transpose1d)},
      {"conv_transpose2d", convolution(conv_transpose2d)},
      {"conv_transpose3d", convolution(conv_transpose3d)},
  };
}

Operators windows() {
  return {
      {"max_pool1d", pool(max_pool1d)},
      {"avg_pool1d", pool(avg_pool1d)},
      {"max_pool2d", pool(max_pool2d)},
      {"avg_pool2d", pool(avg_pool2d)},
      {"max_pool3d", pool(max_pool3d)},
      {"avg_pool3d", pool(avg_pool3d)},
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
