// Our side of the comparison: what language models and sequences need. peers/torch_sequence.py has
// the same for PyTorch.

#include <memory>

#include "ringrad/benchmarks/cases.h"
#include "ringrad/nn.h"

namespace ringrad::bench {
namespace {

constexpr nn::GPTOptions kGPT{
    .vocabulary = 256, .context = 256, .layers = 4, .heads = 4, .width = 256};

// --- Whole models ---

std::function<float()> gpt_step() {
  constexpr std::size_t kBatches = 8;
  manual_seed(0);
  const auto net = std::make_shared<nn::Sequential>(nn::gpt(kGPT));
  const auto optimizer = std::make_shared<nn::AdamW>(
      net->parameters(), nn::AdamOptions{.learning_rate = 1e-3, .weight_decay = 0.01});
  std::vector<Tensor> batches;
  for (std::size_t i = 0; i < kBatches; ++i)
    batches.push_back(randint(0, kGPT.vocabulary, {8, kGPT.context + 1}));
  return [net, optimizer, batches, next = std::size_t{0}]() mutable {
    const Tensor& tokens = batches[next++ % kBatches];
    optimizer->zero_grad();
    const Tensor logits = (*net)(slice(tokens, 1, 0, -1));
    const Tensor loss = cross_entropy(flatten(logits, 0, 1), flatten(slice(tokens, 1, 1)));
    loss.backward();
    optimizer->step();
    return loss.item();
  };
}

// A sequence of 128 tokens, one after the other, with keys and values kept.
void time_generation(const Report& report, const std::string& name) {
  constexpr int kTokens = 128;
  nn::Sequential net = nn::gpt(kGPT);
  report.time_calls(name, {kTokens, "tokens/s"}, [&] {
    nn::GPTGenerator generator(net);
    Tensor token = zeros({1, 1}, {.dtype = DType::int64});
    for (int i = 0; i < kTokens; ++i) token = argmax(generator.next(token), -1, true);
  });
}

void time_lstm(const Report& report, const std::string& name) {
  nn::LSTM lstm(128, 256, {.batch_first = true});
  const Tensor x = randn({32, 64, 128});
  report.time_calls(name, {32, "sequences/s"}, [&] {
    lstm.zero_grad();
    sum(lstm(x)).backward();
  });
}

// --- Operators ---

using Inputs = std::vector<Tensor>;
using Operator = std::function<Tensor(const Inputs&)>;

// Calls the operator and its backward pass, with a gradient of ones.
Case with_gradient(const std::string& name, const Operator& f,
                   const std::function<Inputs()>& make) {
  return {name, [=](const Report& report) {
            const Inputs inputs = make();
            for (const Tensor& x : inputs)
              if (is_floating(x.dtype())) x.set_requires_grad();
            const Tensor gradient = ones_like(f(inputs).detach());
            report.time_calls(name, {1, "calls/s"}, [&] {
              for (Tensor x : inputs)
                if (x.requires_grad()) x.set_grad({});
              f(inputs).backward(gradient);
            });
          }};
}

Case without_gradient(const std::string& name, const Operator& f,
                      const std::function<Inputs()>& make) {
  return {name, [=](const Report& report) {
            const NoGradGuard guard;
            const Inputs inputs = make();
            report.time_calls(name, {1, "calls/s"}, [&] { f(inputs); });
          }};
}

std::vector<Case> cases() {
  const Shape square{1024, 1024}, rows{8192, 1024};
  return {
      step_case("gpt/B:8", 8, gpt_step),
      {"sequence/lstm/T:64/B:32",
       [](const Report& report) { time_lstm(report, "sequence/lstm/T:64/B:32"); }},
      {"sequence/generate/T:128/B:1",
       [](const Report& report) { time_generation(report, "sequence/generate/T:128/B:1"); }},
      with_gradient(
          "sequence/layer_norm/8192x1024",
          [](const Inputs& in) { return layer_norm(in[0], in[1], in[2]); },
          [=] {
            return Inputs{randn(rows), ones({1024}), zeros({1024})};
          }),
      with_gradient(
          "sequence/rms_norm/8192x1024", [](const Inputs& in) { return rms_norm(in[0], in[1]); },
          [=] {
            return Inputs{randn(rows), ones({1024})};
          }),
      with_gradient(
          "sequence/embedding/65536/V:8192/C:64",
          [](const Inputs& in) { return embedding(in[1], in[0]); },
          [] {
            return Inputs{randint(0, 8192, {65536}), randn({8192, 64})};
          }),
      without_gradient(
          "sequence/cumsum/1024x1024", [](const Inputs& in) { return cumsum(in[0], -1); },
          [=] { return Inputs{randn(square)}; }),
      without_gradient(
          "sequence/sort/1024x1024", [](const Inputs& in) { return sort(in[0], -1).first; },
          [=] { return Inputs{randn(square)}; }),
      without_gradient(
          "sequence/topk/1024x1024/K:16", [](const Inputs& in) { return topk(in[0], 16).first; },
          [=] { return Inputs{randn(square)}; }),
      without_gradient(
          "sequence/gather/1024x1024", [](const Inputs& in) { return gather(in[0], 1, in[1]); },
          [=] {
            return Inputs{randn(square), randint(0, 1024, square)};
          }),
      without_gradient(
          "sequence/index_add/65536x64",
          [](const Inputs& in) { return index_add(in[0], 0, in[1], in[2]); },
          [] {
            return Inputs{zeros({8192, 64}), randint(0, 8192, {65536}), randn({65536, 64})};
          }),
      without_gradient(
          "sequence/einsum_bhqd,bhkd->bhqk/B:4/H:8/T:256/D:64",
          [](const Inputs& in) {
            return einsum("bhqd,bhkd->bhqk", {in[0], in[1]});
          },
          [] {
            return Inputs{randn({4, 8, 256, 64}), randn({4, 8, 256, 64})};
          }),
      without_gradient(
          "sequence/bmm/32x256x64x256", [](const Inputs& in) { return bmm(in[0], in[1]); },
          [] {
            return Inputs{randn({32, 256, 64}), randn({32, 64, 256})};
          }),
  };
}

}  // namespace
}  // namespace ringrad::bench

int main(int argc, char** argv) {
  return ringrad::bench::run_cases(argc, argv, "ringrad", ringrad::bench::cases());
}
