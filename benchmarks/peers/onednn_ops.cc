// Peer: operators on oneDNN alone: primitives and buffers made once, then called.
//
//   op/matmul          square                                    plain rows
//   op/conv_...        3x3 to 64 channels; backward = data + weights    plain, @channels_last,
//                      @blocked (oneDNN's own layout), @winograd (own layout, Winograd's algorithm)
//   op/batch_norm...   training mode, ReLU fused                 plain, @channels_last, @blocked
//   op/softmax         4096 x 1024
//   eager/primitive_call   the minimal cost of a call of a oneDNN primitive

#include "ringrad/benchmarks/cases.h"
#include "ringrad/benchmarks/peers/onednn_net.h"

namespace ringrad::bench {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Tag = memory::format_tag;

using Build = std::function<void(CallList&)>;

Case timed(const std::string& name, Work work, const Build& build) {
  return {name, [=](const Report& report) {
            CallList calls;
            build(calls);
            report.time_calls(name, work, [&] { calls.run(); });
          }};
}

Case matmul_case(int64_t n) {
  const auto size = static_cast<double>(n);
  return timed("op/matmul/N:" + std::to_string(n), flops(2 * size * size * size),
               [=](CallList& calls) {
                 const memory::desc square = in_layout({n, n}, Tag::ab);
                 const auto matmul = operation<dnnl::matmul>(square, square, square);
                 calls.add(dnnl::matmul(matmul), {{DNNL_ARG_SRC, make_memory(square, 1)},
                                                  {DNNL_ARG_WEIGHTS, make_memory(square, 1)},
                                                  {DNNL_ARG_DST, make_memory(square)}});
               });
}

struct Convolution {
  int64_t batch, channels, size;
  const char* variant;
  Tag tag;  // of the images; weights are always in oneDNN's own layout
  algorithm kind = algorithm::convolution_direct;
};

constexpr int64_t kOutputs = 64;

void add_convolution_calls(CallList& calls, const Convolution& c, bool backward) {
  const memory::dims ones{1, 1};
  const memory::desc x = in_layout({c.batch, c.channels, c.size, c.size}, c.tag);
  const memory::desc y = in_layout({c.batch, kOutputs, c.size, c.size}, c.tag);
  const memory::desc w = any_layout({kOutputs, c.channels, 3, 3});
  const memory::desc b = in_layout({kOutputs}, Tag::a);
  const auto forward = operation<dnnl::convolution_forward>(prop_kind::forward_training, c.kind, x,
                                                            w, b, y, ones, ones, ones);
  const memory input = make_memory(forward.src_desc(), 1);
  const memory weight = make_memory(forward.weights_desc(), 0.05f);
  calls.add(dnnl::convolution_forward(forward), {{DNNL_ARG_SRC, input},
                                                 {DNNL_ARG_WEIGHTS, weight},
                                                 {DNNL_ARG_BIAS, make_memory(b)},
                                                 {DNNL_ARG_DST, make_memory(forward.dst_desc())}});
  if (!backward) return;

  const auto data =
      gradient_of<dnnl::convolution_backward_data>(forward, c.kind, x, w, y, ones, ones, ones);
  const memory grad_output = make_memory(data.diff_dst_desc(), 1);
  calls.add(dnnl::convolution_backward_data(data),
            {{DNNL_ARG_DIFF_DST, grad_output},
             {DNNL_ARG_WEIGHTS, calls.reordered(weight, data.weights_desc())},
             {DNNL_ARG_DIFF_SRC, make_memory(data.diff_src_desc())}});
  const auto weights = gradient_of<dnnl::convolution_backward_weights>(forward, c.kind, x, w, b, y,
                                                                       ones, ones, ones);
  calls.add(dnnl::convolution_backward_weights(weights),
            {{DNNL_ARG_SRC, calls.reordered(input, weights.src_desc())},
             {DNNL_ARG_DIFF_DST, calls.reordered(grad_output, weights.diff_dst_desc())},
             {DNNL_ARG_DIFF_WEIGHTS, make_memory(weights.diff_weights_desc())},
             {DNNL_ARG_DIFF_BIAS, make_memory(b)}});
}

Case convolution_case(const Convolution& c, bool backward) {
  const auto count = static_cast<double>(c.batch * kOutputs * c.channels * 9 * c.size * c.size) * 2;
  return timed(std::string(backward ? "op/conv_forward_backward" : "op/conv_forward") +
                   "/B:" + std::to_string(c.batch) + "/C:" + std::to_string(c.channels) +
                   "/H:" + std::to_string(c.size) + "/K:64" + c.variant,
               flops(backward ? 3 * count : count),
               [=](CallList& calls) { add_convolution_calls(calls, c, backward); });
}

void add_batch_norm_calls(CallList& calls, Tag tag, bool relu) {
  const memory::desc image = in_layout({64, 64, 56, 56}, tag);
  const memory::desc channel = in_layout({64}, Tag::a);
  const auto forward = batch_norm_forward(image, relu);
  const auto backward = batch_norm_gradient(forward, image, relu);
  Arguments arguments{{DNNL_ARG_SRC, make_memory(image, 1)},
                      {DNNL_ARG_DST, make_memory(image)},
                      {DNNL_ARG_MEAN, make_memory(channel)},
                      {DNNL_ARG_VARIANCE, make_memory(channel)},
                      {DNNL_ARG_SCALE, make_memory(channel, 0, 1)},
                      {DNNL_ARG_SHIFT, make_memory(channel)},
                      {DNNL_ARG_WORKSPACE, memory(forward.workspace_desc(), cpu_engine())}};
  calls.add(BatchNorm(forward), arguments);
  arguments = batch_norm_kept(arguments);
  arguments[DNNL_ARG_DIFF_DST] = make_memory(image, 1);
  arguments[DNNL_ARG_DIFF_SRC] = make_memory(image);
  arguments[DNNL_ARG_DIFF_SCALE] = make_memory(channel);
  arguments[DNNL_ARG_DIFF_SHIFT] = make_memory(channel);
  calls.add(BatchNormGradient(backward), arguments);
}

Case softmax_case() {
  return timed("op/softmax/4096x1024", bytes(8.0 * 4096 * 1024), [](CallList& calls) {
    const memory::desc rows = in_layout({4096, 1024}, Tag::ab);
    const auto softmax =
        operation<Softmax>(prop_kind::forward_training, algorithm::softmax_accurate, rows, rows, 1);
    calls.add(Softmax(softmax),
              {{DNNL_ARG_SRC, make_memory(rows, 1)}, {DNNL_ARG_DST, make_memory(rows)}});
  });
}

Case primitive_call_case() {
  return timed("eager/primitive_call", {}, [](CallList& calls) {
    const memory::desc few = in_layout({16}, Tag::a);
    const auto relu = eltwise_forward(prop_kind::forward_inference, algorithm::eltwise_relu, few);
    const memory values = make_memory(few, 1);
    calls.add(Eltwise(relu), {{DNNL_ARG_SRC, values}, {DNNL_ARG_DST, values}});
  });
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (int64_t n : {256, 512, 1024, 2048}) cases.push_back(matmul_case(n));
  for (const auto& [batch, channels, size] : {std::array{64, 64, 56}, std::array{128, 32, 28}}) {
    for (bool backward : {false, true}) {
      const auto add = [&](const char* variant, Tag tag, algorithm kind) {
        cases.push_back(convolution_case({batch, channels, size, variant, tag, kind}, backward));
      };
      add("", Tag::nchw, algorithm::convolution_direct);
      add("@channels_last", Tag::nhwc, algorithm::convolution_direct);
      add("@blocked", Tag::any, algorithm::convolution_direct);
      // Only oneDNN 2 has this algorithm for x86.
      if (DNNL_VERSION_MAJOR < 3) add("@winograd", Tag::any, algorithm::convolution_winograd);
    }
  }
  for (bool relu : {false, true}) {
    const std::string name = std::string(relu ? "op/batch_norm_relu" : "op/batch_norm") +
                             "_forward_backward/B:64/C:64/H:56";
    const auto add = [&](const char* variant, Tag tag) {
      cases.push_back(timed(name + variant, {},
                            [=](CallList& calls) { add_batch_norm_calls(calls, tag, relu); }));
    };
    add("", Tag::nchw);
    add("@channels_last", Tag::nhwc);
    add("@blocked", Tag::nChw16c);
  }
  cases.push_back(softmax_case());
  cases.push_back(primitive_call_case());
  return cases;
}

}  // namespace
}  // namespace ringrad::bench

int main(int argc, char** argv) {
  return ringrad::bench::run_cases(argc, argv, "onednn", ringrad::bench::all_cases());
}
