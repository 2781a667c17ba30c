// Convolution by oneDNN, for float32.
//
// Channels stay last throughout: on AVX-512 that is as fast as oneDNN's blocked layouts, and
// only the filter, which is small, has to be reordered. oneDNN chooses the filter's order. Nothing
// is left of this file in a library without oneDNN.

#include "ringrad/kernels/library/has_onednn.h"

#if RINGRAD_ONEDNN

#include <algorithm>
#include <array>
#include <optional>

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/convolution/convolution_kernels.h"
#include "ringrad/kernels/library/onednn.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu::onednn {
namespace {

using dnnl::algorithm;
using dnnl::memory;
namespace glue = ringrad::kernels::onednn;

constexpr auto kAlgorithm = algorithm::convolution_direct;

/// What comes first, and then the axes of a volume; an image has no depth.
memory::dims extents(const ConvolutionGeometry& g, memory::dims first,
                     const std::array<std::int64_t, 3>& axes) {
  first.insert(first.end(), axes.begin() + g.is_flat(), axes.end());
  return first;
}

/// oneDNN descriptions of all the memory that a convolution accesses.
struct Descriptions {
  explicit Descriptions(const ConvolutionGeometry& g)
      : bias(glue::describe(std::array{g.K}, memory::format_tag::a)),
        stride(extents(g, {}, g.options.stride)),
        padding(extents(g, {}, g.options.padding)),
        dilation(extents(g, {}, g.options.dilation)) {
    for (std::int64_t& distance : dilation) --distance;  // oneDNN counts the places between taps
    using Tag = memory::format_tag;
    const bool flat = g.is_flat(), grouped = g.options.groups > 1;
    const Tag order = flat ? Tag::nhwc : Tag::ndhwc;
    x = glue::describe(extents(g, {g.B, g.C}, {g.D, g.H, g.W}), order);
    y = glue::describe(extents(g, {g.B, g.K}, {g.Z, g.P, g.Q}), order);
    const memory::dims channels =
        grouped ? memory::dims{g.options.groups, g.group_outputs(), g.group_inputs()}
                : memory::dims{g.K, g.C};
    const memory::dims filter_extents = extents(g, channels, {g.U, g.R, g.S});
    const Tag filter_order =
        grouped ? (flat ? Tag::goihw : Tag::goidhw) : (flat ? Tag::oihw : Tag::oidhw);
    filter = glue::describe(filter_extents, filter_order);
    any_filter = glue::describe(filter_extents, Tag::any);
  }

  dnnl::convolution_forward::primitive_desc forward(bool with_bias) const {
    return glue::operation<dnnl::convolution_forward>(
        dnnl::prop_kind::forward_training, kAlgorithm, x, any_filter,
        with_bias ? bias : memory::desc(), y, stride, dilation, padding, padding);
  }

  memory::desc x, y, bias, filter, any_filter;
  memory::dims stride, padding, dilation;
};

/// A convolution and, if oneDNN wants the filter in another order, the reorder before or after it.
struct ConvolutionPlan {
  glue::Plan convolution;
  std::optional<glue::Plan> reorder;
  std::int64_t reordered_size;  // size of the filter in oneDNN's order, in floats
};

enum class FilterIs { input, output };

ConvolutionPlan with_reorder(glue::Plan convolution, const memory::desc& ours,
                             const memory::desc& theirs, FilterIs role) {
  ConvolutionPlan plan{std::move(convolution), std::nullopt,
                       static_cast<std::int64_t>(theirs.get_size() / sizeof(float))};
  if (ours == theirs) return plan;
  const auto& from = role == FilterIs::input ? ours : theirs;
  const auto& to = role == FilterIs::input ? theirs : ours;
  const dnnl::reorder::primitive_desc reorder(glue::engine(), from, glue::engine(), to);
  plan.reorder = glue::Plan(dnnl::reorder(reorder), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  return plan;
}

glue::PlanKey key_of(const ConvolutionGeometry& g, bool with_bias) {
  glue::PlanKey key{g.B, g.C, g.D, g.H, g.W, g.K, g.U, g.R, g.S, g.options.groups, with_bias};
  return key.add(g.options.stride).add(g.options.padding).add(g.options.dilation);
}

// The filter in the order that the plan needs; `storage` keeps it alive.
const float* ordered_filter(ConvolutionPlan& plan, const float* filter, Tensor& storage,
                            const char* operation, Where where) {
  if (!plan.reorder) return filter;
  storage = empty({plan.reordered_size}, {}, where);
  float* ordered = storage.data<float>();
  plan.reorder->run({{DNNL_ARG_FROM, filter}, {DNNL_ARG_TO, ordered}}, operation, where);
  return ordered;
}

/// True where oneDNN's weight gradient writes beyond its scratch memory, in all versions up to 3.12
/// (its issue 6035): filters of one tap that skip pixels, on fewer channels than a vector has
/// lanes.
bool overruns(const ConvolutionGeometry& g) {
  constexpr std::int64_t kMostLanes = 16;
  constexpr std::array<std::int64_t, 3> kNone = {0, 0, 0}, kOnes = {1, 1, 1};
  return g.taps() == 1 && g.options.padding == kNone && g.options.stride != kOnes &&
         g.group_inputs() < kMostLanes;
}

/// What such a filter sees: every stride-th pixel.
Tensor seen_pixels(const ConvolutionGeometry& g, const float* x, Where where) {
  const Tensor seen = empty({g.B, g.Z, g.P, g.Q, g.C}, {}, where);
  float* const to = seen.data<float>();
  const auto& stride = g.options.stride;
  const std::int64_t grain = 4096 / (g.Q * g.C) + 1;
  parallel_for(g.B * g.Z * g.P, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t volume = row / g.P / g.Z, z = row / g.P % g.Z, p = row % g.P;
      const std::int64_t from = (volume * g.D + z * stride[0]) * g.H + p * stride[1];
      for (std::int64_t q = 0; q < g.Q; ++q)
        std::copy_n(x + (from * g.W + q * stride[2]) * g.C, g.C, to + (row * g.Q + q) * g.C);
    }
  });
  return seen;
}

/// The same convolution of those pixels.
ConvolutionGeometry of_seen_pixels(ConvolutionGeometry g) {
  g.D = g.Z, g.H = g.P, g.W = g.Q;
  g.options.stride = {1, 1, 1};
  return g;
}

}  // namespace

void convolution(const ConvolutionGeometry& g, const float* x, const float* weight,
                 const float* bias, float* y, Where where) {
  const char* operation = g.name(ConvolutionProduct::forward);
  auto& plan = glue::find_or_make_plan(key_of(g, bias != nullptr), operation, where, [&] {
    const Descriptions d(g);
    const auto forward = d.forward(bias != nullptr);
    return with_reorder({dnnl::convolution_forward(forward),
                         {{DNNL_ARG_SRC, d.x},
                          {DNNL_ARG_WEIGHTS, forward.weights_desc()},
                          {DNNL_ARG_BIAS, forward.bias_desc()},
                          {DNNL_ARG_DST, d.y}}},
                        d.filter, forward.weights_desc(), FilterIs::input);
  });
  Tensor storage;
  plan.convolution.run({{DNNL_ARG_SRC, x},
                        {DNNL_ARG_WEIGHTS, ordered_filter(plan, weight, storage, operation, where)},
                        {DNNL_ARG_BIAS, bias},
                        {DNNL_ARG_DST, y}},
                       operation, where);
}

void convolution_backward_input(const ConvolutionGeometry& g, const float* grad_y,
                                const float* weight, float* grad_x, Where where) {
  const char* operation = g.name(ConvolutionProduct::backward_input);
  auto& plan = glue::find_or_make_plan(key_of(g, false), operation, where, [&] {
    const Descriptions d(g);
    const auto backward = glue::gradient_of<dnnl::convolution_backward_data>(
        d.forward(false), kAlgorithm, d.x, d.any_filter, d.y, d.stride, d.dilation, d.padding,
        d.padding);
    return with_reorder({dnnl::convolution_backward_data(backward),
                         {{DNNL_ARG_DIFF_DST, d.y},
                          {DNNL_ARG_WEIGHTS, backward.weights_desc()},
                          {DNNL_ARG_DIFF_SRC, d.x}}},
                        d.filter, backward.weights_desc(), FilterIs::input);
  });
  Tensor storage;
  plan.convolution.run({{DNNL_ARG_DIFF_DST, grad_y},
                        {DNNL_ARG_WEIGHTS, ordered_filter(plan, weight, storage, operation, where)},
                        {DNNL_ARG_DIFF_SRC, grad_x}},
                       operation, where);
}

void convolution_backward_weight(const ConvolutionGeometry& g, const float* x, const float* grad_y,
                                 float* grad_weight, Where where) {
  if (overruns(g))
    return convolution_backward_weight(of_seen_pixels(g), seen_pixels(g, x, where).data<float>(),
                                       grad_y, grad_weight, where);
  const char* operation = g.name(ConvolutionProduct::backward_weight);
  auto& plan = glue::find_or_make_plan(key_of(g, false), operation, where, [&] {
    const Descriptions d(g);
    const auto backward = glue::gradient_of<dnnl::convolution_backward_weights>(
        d.forward(false), kAlgorithm, d.x, d.any_filter, d.y, d.stride, d.dilation, d.padding,
        d.padding);
    return with_reorder({dnnl::convolution_backward_weights(backward),
                         {{DNNL_ARG_SRC, d.x},
                          {DNNL_ARG_DIFF_DST, d.y},
                          {DNNL_ARG_DIFF_WEIGHTS, backward.diff_weights_desc()}}},
                        d.filter, backward.diff_weights_desc(), FilterIs::output);
  });
  const Tensor storage = plan.reorder ? empty({plan.reordered_size}, {}, where) : Tensor();
  float* ordered = plan.reorder ? storage.data<float>() : grad_weight;
  plan.convolution.run(
      {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, grad_y}, {DNNL_ARG_DIFF_WEIGHTS, ordered}}, operation,
      where);
  if (plan.reorder)
    plan.reorder->run({{DNNL_ARG_FROM, ordered}, {DNNL_ARG_TO, grad_weight}}, operation, where);
}

}  // namespace ringrad::kernels::cpu::onednn

#endif
