#include "ringrad/kernels/library/attention_cudnn.h"

#include <bit>
#include <initializer_list>
#include <mutex>
#include <set>

namespace fe = cudnn_frontend;

namespace ringrad::kernels::cudnn {
namespace {

enum Id : std::int64_t { kQ = 1, kK, kV, kOutput, kLogsumexp, kGradOutput, kGradQ, kGradK, kGradV };

struct Layout4 {
  Extents extents, strides;
};

Layout4 layout_of(const Tensor& x) {
  Layout4 layout{{x.shape().begin(), x.shape().end()}, {x.strides().begin(), x.strides().end()}};
  if (x.dims() == 3) {  // cuDNN's statistics have an axis of extent 1 at the end
    layout.extents.push_back(1);
    layout.strides.push_back(1);
  }
  return layout;
}

GraphTensor add_input(Graph& graph, Id id, const Tensor& x) {
  const auto [extents, strides] = layout_of(x);
  auto attributes = fe::graph::Tensor_attributes().set_uid(id).set_dim(extents).set_stride(strides);
  if (x.dtype() == DType::float32) attributes.set_data_type(fe::DataType_t::FLOAT);
  return graph.tensor(attributes);
}

void write_output(const GraphTensor& tensor, Id id, const Tensor& x) {
  const auto [extents, strides] = layout_of(x);
  tensor->set_output(true).set_uid(id).set_dim(extents).set_stride(strides);
  if (x.dtype() == DType::float32) tensor->set_data_type(fe::DataType_t::FLOAT);
}

template <class Attributes>
Attributes options_of(const AttentionProblem& a) {
  Attributes attributes;
  attributes.set_attn_scale(static_cast<float>(a.scale));
  if (a.causal)
    attributes.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
        .set_diagonal_band_right_bound(0);
  return attributes;
}

template <class Call>
bool fits(const Call& call, std::initializer_list<Tensor> inputs) {
  const AttentionProblem& a = call.a;
  const auto fits_size = [](std::int64_t size) { return size > 0 && size <= 128 && size % 8 == 0; };
  bool fit = size_bytes(call.q.dtype()) == 2 && fits_size(a.D) && fits_size(a.Dv) && a.B > 0 &&
             a.H > 0 && a.T > 1 && a.S > 1 && !call.mask.defined() && call.dropout.p == 0 &&
             a.window == 0 && (!a.causal || a.shift == 0);
  for (const Tensor& x : inputs) {
    fit = fit && x.strides()[3] == 1;
    for (int axis = 0; axis < 3; ++axis)
      fit = fit && x.strides()[axis] > 0 && x.strides()[axis] % 8 == 0;
  }
  return fit;
}

// Cannot equal the keys of convolutions and batch norm, whose first numbers are smaller.
Key key_of(bool backward, const AttentionProblem& a, std::initializer_list<Tensor> tensors) {
  Key key = {200 + backward, a.causal, std::bit_cast<std::int64_t>(a.scale)};
  for (const Tensor& x : tensors) {
    key.push_back(static_cast<std::int64_t>(x.dtype()));
    const auto [extents, strides] = layout_of(x);
    key.insert(key.end(), extents.begin(), extents.end());
    key.insert(key.end(), strides.begin(), strides.end());
  }
  return key;
}

// Sequences may have any length, and each needs an engine of its own, which takes long to build and
// is never freed. So only the first keys of a process get one.
bool has_room(const Key& key) {
  constexpr std::size_t kMostKeys = 128;
  static std::mutex mutex;
  static auto& known = *new std::set<Key>;  // never destroyed
  const std::lock_guard lock(mutex);
  if (known.size() < kMostKeys) known.insert(key);
  return known.contains(key);
}

bool run_attention(Device device, DType dtype, const Key& key, const std::function<Graph()>& make,
                   Operands operands, Where where) {
  return has_room(key) &&
         run(device, dtype, key, make, {.candidates = 1}, std::move(operands), where);
}

}  // namespace

Graph attention_graph(const AttentionForward& call, int architecture) {
  Graph graph = make_graph(call.q.dtype());
  graph.set_sm_version(architecture);
  auto options = options_of<fe::graph::SDPA_attributes>(call.a);
  options.set_generate_stats(true);
  const auto [y, logsumexp] = graph.sdpa(add_input(graph, kQ, call.q), add_input(graph, kK, call.k),
                                         add_input(graph, kV, call.v), options);
  write_output(y, kOutput, call.output);
  write_output(logsumexp, kLogsumexp, call.statistics);
  return graph;
}

Graph attention_backward_graph(const AttentionBackward& call, int architecture) {
  Graph graph = make_graph(call.q.dtype());
  graph.set_sm_version(architecture);
  auto options = options_of<fe::graph::SDPA_backward_attributes>(call.a);
  options.set_deterministic_algorithm(true);
  const auto [grad_q, grad_k, grad_v] = graph.sdpa_backward(
      add_input(graph, kQ, call.q), add_input(graph, kK, call.k), add_input(graph, kV, call.v),
      add_input(graph, kOutput, call.output), add_input(graph, kGradOutput, call.grad_output),
      add_input(graph, kLogsumexp, call.statistics), options);
  write_output(grad_q, kGradQ, call.grad_q);
  write_output(grad_k, kGradK, call.grad_k);
  write_output(grad_v, kGradV, call.grad_v);
  return graph;
}

bool attention(const AttentionForward& call, Where where) {
  if (!fits(call, {call.q, call.k, call.v})) return false;
  return run_attention(
      call.q.device(), call.q.dtype(), key_of(false, call.a, {call.q, call.k, call.v, call.output}),
      [&] { return attention_graph(call); },
      {{kQ, call.q.raw_data()},
       {kK, call.k.raw_data()},
       {kV, call.v.raw_data()},
       {kOutput, call.output.raw_data()},
       {kLogsumexp, call.statistics.raw_data()}},
      where);
}

bool attention_backward(const AttentionBackward& call, Where where) {
  if (!fits(call, {call.q, call.k, call.v, call.output, call.grad_output})) return false;
  return run_attention(
      call.q.device(), call.q.dtype(),
      key_of(true, call.a,
             {call.q, call.k, call.v, call.output, call.grad_output, call.grad_q, call.grad_k,
              call.grad_v}),
      [&] { return attention_backward_graph(call); },
      {{kQ, call.q.raw_data()},
       {kK, call.k.raw_data()},
       {kV, call.v.raw_data()},
       {kOutput, call.output.raw_data()},
       {kLogsumexp, call.statistics.raw_data()},
       {kGradOutput, call.grad_output.raw_data()},
       {kGradQ, call.grad_q.raw_data()},
       {kGradK, call.grad_k.raw_data()},
       {kGradV, call.grad_v.raw_data()}},
      where);
}

}  // namespace ringrad::kernels::cudnn
