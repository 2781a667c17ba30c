#include "ringrad/tests/fuzz_torch/operators.h"

#include "ringrad/autograd/attention/attention.h"
#include "ringrad/autograd/convolution/convolution.h"
#include "ringrad/autograd/convolution/interpolate.h"
#include "ringrad/autograd/convolution/pool.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/index/gather.h"
#include "ringrad/autograd/index/index_select.h"
#include "ringrad/autograd/index/mask.h"
#include "ringrad/autograd/index/scatter.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/loss/embedding_loss.h"
#include "ringrad/autograd/loss/linear_cross_entropy.h"
#include "ringrad/autograd/loss/pointwise_loss.h"
#include "ringrad/autograd/loss/softmax.h"
#include "ringrad/autograd/matmul/contraction.h"
#include "ringrad/autograd/matmul/einsum.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/norm/batch_norm.h"
#include "ringrad/autograd/norm/group_norm.h"
#include "ringrad/autograd/norm/layer_norm.h"
#include "ringrad/autograd/norm/rms_norm.h"
#include "ringrad/autograd/order/quantile.h"
#include "ringrad/autograd/order/scan.h"
#include "ringrad/autograd/order/sort.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/autograd/shape/diagonal.h"
#include "ringrad/autograd/shape/flip.h"
#include "ringrad/autograd/shape/pad.h"
#include "ringrad/autograd/shape/repeat.h"
#include "ringrad/autograd/shape/roll.h"
#include "ringrad/autograd/shape/unfold.h"

namespace ringrad::fuzz_torch {

using nlohmann::json;
using In = const std::vector<Tensor>&;
using Arguments = const json&;

Shape shape_of(const json& extents) {
  Shape shape;
  for (const std::int64_t extent : extents) shape.push_back(extent);
  return shape;
}

namespace {

using Unary = Tensor (*)(const Tensor& x, Where where);
using Binary = Tensor (*)(const Tensor& a, const Tensor& b, Where where);
using Reduce = Tensor (*)(const Tensor& x, const Shape& axes, bool keepdim, Where where);

Operator of(Unary f) {
  return [f](In in, Arguments) { return f(in[0], Where::current()); };
}
Operator of(Binary f) {
  return [f](In in, Arguments) { return f(in[0], in[1], Where::current()); };
}
Operator of(Reduce f) {
  return [f](In in, Arguments with) {
    return f(in[0], shape_of(with["axes"]), with["keepdim"], Where::current());
  };
}

Tensor indices_of(Arguments with) {
  const std::vector<std::int64_t> values = with["indices"];
  const Tensor indices =
      empty(with.contains("shape") ? shape_of(with["shape"])
                                   : Shape{static_cast<std::int64_t>(values.size())},
            {.dtype = DType::int64});
  std::copy(values.begin(), values.end(), indices.data<std::int64_t>());
  return indices;
}

Reduction reduction_of(Arguments with) {
  const std::string name = with["reduction"];
  return name == "none" ? Reduction::none : name == "sum" ? Reduction::sum : Reduction::mean;
}

Pool2dOptions pool_of(Arguments with) {
  const std::int64_t kernel = with["kernel"], stride = with["stride"], padding = with["padding"];
  return {.kernel = {kernel, kernel}, .stride = {stride, stride}, .padding = {padding, padding}};
}

Pool3dOptions pool3d_of(Arguments with) {
  const std::int64_t kernel = with["kernel"], stride = with["stride"], padding = with["padding"];
  return {.kernel = {kernel, kernel, kernel},
          .stride = {stride, stride, stride},
          .padding = {padding, padding, padding}};
}

std::map<std::string, Operator> elementwise() {
  return {
      {"neg", of(static_cast<Unary>(neg))},
      {"abs", of(static_cast<Unary>(abs))},
      {"sign", of(static_cast<Unary>(sign))},
      {"square", of(static_cast<Unary>(square))},
      {"exp", of(static_cast<Unary>(exp))},
      {"expm1", of(static_cast<Unary>(expm1))},
      {"log", of(static_cast<Unary>(log))},
      {"log1p", of(static_cast<Unary>(log1p))},
      {"sqrt", of(static_cast<Unary>(sqrt))},
      {"rsqrt", of(static_cast<Unary>(rsqrt))},
      {"reciprocal", of(static_cast<Unary>(reciprocal))},
      {"sin", of(static_cast<Unary>(sin))},
      {"cos", of(static_cast<Unary>(cos))},
      {"tanh", of(static_cast<Unary>(tanh))},
      {"sigmoid", of(static_cast<Unary>(sigmoid))},
      {"erf", of(static_cast<Unary>(erf))},
      {"relu", of(static_cast<Unary>(relu))},
      {"gelu", of(static_cast<Unary>(gelu))},
      {"gelu_tanh", of(static_cast<Unary>(gelu_tanh))},
      {"silu", of(static_cast<Unary>(silu))},
      {"softplus", [](In in, Arguments) { return softplus(in[0]); }},
      {"leaky_relu", [](In in, Arguments) { return leaky_relu(in[0], 0.2); }},
      {"elu", [](In in, Arguments) { return elu(in[0], 1.5); }},
      {"tan", of(static_cast<Unary>(tan))},
      {"asin", of(static_cast<Unary>(asin))},
      {"acos", of(static_cast<Unary>(acos))},
      {"atan", of(static_cast<Unary>(atan))},
      {"sinh", of(static_cast<Unary>(sinh))},
      {"cosh", of(static_cast<Unary>(cosh))},
      {"asinh", of(static_cast<Unary>(asinh))},
      {"acosh", of(static_cast<Unary>(acosh))},
      {"atanh", of(static_cast<Unary>(atanh))},
      {"trunc", of(static_cast<Unary>(trunc))},
      {"nan_to_num", [](In in, Arguments) { return nan_to_num(in[0], 2, 3, -3); }},
      {"floor", of(static_cast<Unary>(floor))},
      {"round", of(static_cast<Unary>(round))},
      {"add", of(static_cast<Binary>(add))},
      {"sub", of(static_cast<Binary>(sub))},
      {"mul", of(static_cast<Binary>(mul))},
      {"div", of(static_cast<Binary>(div))},
      {"pow", of(static_cast<Binary>(pow))},
      {"atan2", of(static_cast<Binary>(atan2))},
      {"remainder", of(static_cast<Binary>(remainder))},
      {"floor_divide", of(static_cast<Binary>(floor_divide))},
      {"lerp", [](In in, Arguments) { return lerp(in[0], in[1], in[1]); }},
      {"maximum", of(static_cast<Binary>(maximum))},
      {"minimum", of(static_cast<Binary>(minimum))},
      {"add_relu", of(static_cast<Binary>(add_relu))},
      {"clamp",
       [](In in, Arguments with) {
         return clamp(in[0], with["low"].get<double>(), with["high"].get<double>());
       }},
      {"pow_number",
       [](In in, Arguments with) { return pow(in[0], with["number"].get<double>()); }},
      {"number_pow",
       [](In in, Arguments with) { return pow(with["number"].get<double>(), in[0]); }},
      {"number_div", [](In in, Arguments with) { return with["number"].get<double>() / in[0]; }},
      {"mul_number", [](In in, Arguments with) { return in[0] * with["number"].get<double>(); }},
      {"where", [](In in, Arguments) { return where(in[0] > in[1], in[0], in[1] * 2); }},
  };
}

std::map<std::string, Operator> movement() {
  return {
      {"transpose",
       [](In in, Arguments with) { return transpose(in[0], with["axis0"], with["axis1"]); }},
      {"reshape", [](In in, Arguments with) { return reshape(in[0], shape_of(with["shape"])); }},
      {"expand", [](In in, Arguments with) { return expand(in[0], shape_of(with["shape"])); }},
      {"slice",
       [](In in, Arguments with) {
         return slice(in[0], with["axis"], with["start"], with["end"], with["step"]);
       }},
      {"select", [](In in, Arguments with) { return select(in[0], with["axis"], with["index"]); }},
      {"unsqueeze", [](In in, Arguments with) { return unsqueeze(in[0], with["axis"]); }},
      {"concatenate",
       [](In in, Arguments with) {
         return concatenate({in[0], in[1]}, with["axis"]);
       }},
      {"index_select",
       [](In in, Arguments with) { return index_select(in[0], with["axis"], indices_of(with)); }},
      {"gather",
       [](In in, Arguments with) { return gather(in[0], with["axis"], indices_of(with)); }},
  };
}

PadMode pad_mode_of(Arguments with) {
  const std::string name = with["mode"];
  return name == "reflect"     ? PadMode::reflect
         : name == "replicate" ? PadMode::replicate
                               : PadMode::constant;
}

std::map<std::string, Operator> shapes() {
  return {
      {"brackets", [](In in, Arguments with) { return in[0][indices_of(with)]; }},
      {"brackets_mask", [](In in, Arguments) { return in[0][in[0] > 0]; }},
      {"masked_fill", [](In in, Arguments) { return masked_fill(in[0], in[1] > 0, 0.5); }},
      {"scatter",
       [](In in, Arguments with) {
         return scatter(in[0], with["axis"].get<std::int64_t>(), indices_of(with), in[1]);
       }},
      {"index_add",
       [](In in, Arguments with) {
         return index_add(in[0], with["axis"], indices_of(with), in[1], 0.5);
       }},
      {"index_fill",
       [](In in, Arguments with) {
         return index_fill(in[0], with["axis"], indices_of(with), in[1]);
       }},
      {"brackets_backwards",
       [](In in, Arguments with) {
         return in[0][{Slice(kNone, kNone, -with["step"].get<std::int64_t>())}];
       }},
      {"cumsum", [](In in, Arguments with) { return cumsum(in[0], with["axis"]); }},
      {"cumprod", [](In in, Arguments with) { return cumprod(in[0], with["axis"]); }},
      {"sort",
       [](In in, Arguments with) { return sort(in[0], with["axis"], with["descending"]).first; }},
      {"topk",
       [](In in, Arguments with) {
         return topk(in[0], with["k"], with["axis"], with["largest"]).first;
       }},
      {"max_with_indices",
       [](In in, Arguments with) {
         return max_with_indices(in[0], with["axis"], with["keepdim"]).first;
       }},
      {"min_with_indices",
       [](In in, Arguments with) {
         return min_with_indices(in[0], with["axis"], with["keepdim"]).first;
       }},
      {"flip", [](In in, Arguments with) { return flip(in[0], shape_of(with["axes"])); }},
      {"roll",
       [](In in, Arguments with) {
         return roll(in[0], with["shift"].get<std::int64_t>(), with["axis"].get<std::int64_t>());
       }},
      {"pad",
       [](In in, Arguments with) {
         const std::vector<std::int64_t> amounts = with["amounts"];
         return pad(in[0], amounts, pad_mode_of(with), 0.5);
       }},
      {"repeat", [](In in, Arguments with) { return repeat(in[0], shape_of(with["counts"])); }},
      {"repeat_interleave",
       [](In in, Arguments with) {
         return repeat_interleave(in[0], with["count"].get<std::int64_t>(), with["axis"]);
       }},
      {"diagonal",
       [](In in, Arguments with) {
         return diagonal(in[0], with["offset"], with["axis0"], with["axis1"]);
       }},
      {"tril", [](In in, Arguments with) { return tril(in[0], with["offset"]); }},
      {"triu", [](In in, Arguments with) { return triu(in[0], with["offset"]); }},
      {"unfold",
       [](In in, Arguments with) {
         return unfold(in[0], with["axis"], with["size"], with["step"]);
       }},
  };
}

std::map<std::string, Operator> reductions_and_layers() {
  return {
      {"sum", of(static_cast<Reduce>(sum))},
      {"mean", of(static_cast<Reduce>(mean))},
      {"max", of(static_cast<Reduce>(max))},
      {"min", of(static_cast<Reduce>(min))},
      {"median", [](In in, Arguments with) { return median(in[0], with["axis"]); }},
      {"quantile", [](In in, Arguments with) { return quantile(in[0], with["q"], with["axis"]); }},
      {"prod", of(static_cast<Reduce>(prod))},
      {"logsumexp", of(static_cast<Reduce>(logsumexp))},
      {"vector_norm",
       [](In in, Arguments with) {
         const std::string order = with["order"];
         return vector_norm(in[0], std::stod(order), shape_of(with["axes"]), with["keepdim"]);
       }},
      {"stddev",
       [](In in, Arguments with) {
         return stddev(in[0], shape_of(with["axes"]), with["correction"], with["keepdim"]);
       }},
      {"var",
       [](In in, Arguments with) {
         return var(in[0], shape_of(with["axes"]), with["correction"], with["keepdim"]);
       }},
      {"softmax", [](In in, Arguments with) { return softmax(in[0], with["axis"]); }},
      {"log_softmax", [](In in, Arguments with) { return log_softmax(in[0], with["axis"]); }},
      {"attention",
       [](In in, Arguments with) {
         return scaled_dot_product_attention(in[0], in[1], in[2],
                                             {.mask = in.size() > 3 ? in[3] : Tensor(),
                                              .causal = with["causal"].get<bool>(),
                                              .scale = with["scale"].get<double>()});
       }},
      {"layer_norm", [](In in, Arguments) { return layer_norm(in[0], in[1], in[2]); }},
      {"rms_norm", [](In in, Arguments) { return rms_norm(in[0], in[1]); }},
      {"group_norm",
       [](In in, Arguments with) { return group_norm(in[0], with["groups"], in[1], in[2]); }},
      {"instance_norm", [](In in, Arguments) { return instance_norm(in[0], in[1], in[2]); }},
      {"batch_norm", [](In in, Arguments) { return batch_norm(in[0], in[1], in[2], {}, {}, {}); }},
      {"batch_norm_evaluation",
       [](In in, Arguments) {
         const Tensor mean = full(in[1].shape(), 0.5, {.dtype = in[1].dtype()});
         const Tensor var = full(in[1].shape(), 2, {.dtype = in[1].dtype()});
         return batch_norm(in[0], in[1], in[2], mean, var, {.training = false});
       }},
      {"matmul", of(static_cast<Binary>(matmul))},
      {"einsum", [](In in, Arguments with) { return einsum(with["equation"], in); }},
      {"tensordot", [](In in, Arguments with) { return tensordot(in[0], in[1], with["count"]); }},
      {"linear",
       [](In in, Arguments with) { return linear(in[0], in[1], in[2], with["relu"].get<bool>()); }},
      {"conv2d",
       [](In in, Arguments with) {
         const std::int64_t stride = with["stride"], padding = with["padding"];
         return conv2d(in[0], in[1], in[2],
                       {.stride = {stride, stride}, .padding = {padding, padding}});
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
      {"conv_transpose2d",
       [](In in, Arguments with) {
         const std::int64_t stride = with["stride"], padding = with["padding"];
         const std::int64_t added = with["output_padding"];
         return conv_transpose2d(in[0], in[1], in[2],
                                 {.stride = {stride, stride},
                                  .padding = {padding, padding},
                                  .output_padding = {added, added}});
       }},
      {"conv1d",
       [](In in, Arguments with) {
         return conv1d(in[0], in[1], in[2], {.stride = with["stride"], .padding = with["padding"]});
       }},
      {"max_pool1d",
       [](In in, Arguments with) {
         return max_pool1d(in[0], {.stride = with["stride"], .padding = with["padding"]});
       }},
      {"max_pool2d", [](In in, Arguments with) { return max_pool2d(in[0], pool_of(with)); }},
      {"avg_pool2d", [](In in, Arguments with) { return avg_pool2d(in[0], pool_of(with)); }},
      {"conv3d",
       [](In in, Arguments with) {
         const std::int64_t stride = with["stride"], padding = with["padding"];
         return conv3d(
             unsqueeze(in[0], 0), in[1], in[2],
             {.stride = {stride, stride, stride}, .padding = {padding, padding, padding}});
       }},
      {"max_pool3d",
       [](In in, Arguments with) { return max_pool3d(unsqueeze(in[0], 0), pool3d_of(with)); }},
      {"avg_pool3d",
       [](In in, Arguments with) { return avg_pool3d(unsqueeze(in[0], 0), pool3d_of(with)); }},
      {"cross_entropy",
       [](In in, Arguments with) {
         return cross_entropy(in[0], indices_of(with),
                              {.label_smoothing = with["label_smoothing"].get<double>(),
                               .reduction = reduction_of(with)});
       }},
      {"nll_loss",
       [](In in, Arguments with) {
         return nll_loss(in[0], indices_of(with), {.reduction = reduction_of(with)});
       }},
      {"linear_cross_entropy",
       [](In in, Arguments with) {
         return linear_cross_entropy(in[0], in[1], indices_of(with), in[2],
                                     {.label_smoothing = with["label_smoothing"].get<double>(),
                                      .reduction = reduction_of(with)});
       }},
      {"cosine_embedding_loss",
       [](In in, Arguments with) {
         const Tensor signs = 1 - 2 * indices_of(with);
         return cosine_embedding_loss(in[0], in[1], signs, 0.1, reduction_of(with));
       }},
      {"triplet_margin_loss",
       [](In in, Arguments with) {
         return triplet_margin_loss(in[0], in[1], in[2], {.reduction = reduction_of(with)});
       }},
      {"huber_loss",
       [](In in, Arguments with) { return huber_loss(in[0], in[1], reduction_of(with), 0.7); }},
      {"smooth_l1_loss",
       [](In in, Arguments with) { return smooth_l1_loss(in[0], in[1], reduction_of(with), 0.7); }},
      {"kl_div",
       [](In in, Arguments with) { return kl_div(in[0], in[1], reduction_of(with), true); }},
      {"mse_loss",
       [](In in, Arguments with) { return mse_loss(in[0], in[1], reduction_of(with)); }},
      {"l1_loss", [](In in, Arguments with) { return l1_loss(in[0], in[1], reduction_of(with)); }},
      {"bce_with_logits",
       [](In in, Arguments with) {
         return bce_with_logits(in[0], in[1], in[2], reduction_of(with));
       }},
  };
}

}  // namespace

const std::map<std::string, Operator>& operators() {
  static const std::map<std::string, Operator> all = [] {
    auto result = elementwise();
    result.merge(movement());
    result.merge(shapes());
    result.merge(reductions_and_layers());
namespace ringrad::fuzz_torch {

const Operators& operators() {
  static const Operators all = [] {
    Operators result;
    for (Operators some : {elementwise_operators(), movement_operators(), index_operators(),
                           reduction_operators(), layer_operators(), loss_operators()})
      result.merge(some);
    return result;
  }();
  return all;
}

}  // namespace ringrad::fuzz_torch
