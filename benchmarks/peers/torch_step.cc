// Peer: training steps in libtorch.
//
// The four networks of the comparison, written as a libtorch user writes them, each in the default
// layout and, where there are images, in channels_last. SGD with momentum 0.9; eight rotating
// batches of random data; the loss is read in every step, as in real training loops.

#include <torch/torch.h>

#include "ringrad/benchmarks/cases.h"

namespace ringrad::bench {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr int kBatches = 8;
constexpr int kClasses = 10;

nn::Conv2d conv3x3(int in, int out, int stride, bool bias) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(bias));
}

nn::Sequential tiny_mlp() {
  return nn::Sequential(nn::Linear(10, 20), nn::ReLU(), nn::Linear(20, 5));
}

nn::Sequential mlp() {
  return nn::Sequential(nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 512), nn::ReLU(),
                        nn::Linear(512, kClasses));
}

nn::Sequential convnet() {
  return nn::Sequential(conv3x3(1, 32, 1, true), nn::BatchNorm2d(32), nn::ReLU(), nn::MaxPool2d(2),
                        conv3x3(32, 64, 1, true), nn::BatchNorm2d(64), nn::ReLU(), nn::MaxPool2d(2),
                        nn::Flatten(), nn::Linear(3136, 128), nn::ReLU(),
                        nn::Linear(128, kClasses));
}

// ResNet-20's basic block; where the shape changes, the shortcut is a 1x1 convolution.
struct BlockImpl : nn::Module {
  BlockImpl(int in, int out, int stride)
      : body(conv3x3(in, out, stride, false), nn::BatchNorm2d(out), nn::ReLU(nn::ReLUOptions(true)),
             conv3x3(out, out, 1, false), nn::BatchNorm2d(out)) {
    register_module("body", body);
    if (in != out) {
      shortcut =
          nn::Sequential(nn::Conv2d(nn::Conv2dOptions(in, out, 1).stride(stride).bias(false)),
                         nn::BatchNorm2d(out));
      register_module("shortcut", shortcut);
    }
  }
  Tensor forward(const Tensor& x) {
    return body->forward(x).add_(shortcut.is_empty() ? x : shortcut->forward(x)).relu_();
  }
  nn::Sequential body;
  nn::Sequential shortcut{nullptr};
};
TORCH_MODULE(Block);

nn::Sequential resnet20() {
  nn::Sequential net(conv3x3(3, 16, 1, false), nn::BatchNorm2d(16),
                     nn::ReLU(nn::ReLUOptions(true)));
  int in = 16;
  for (int out : {16, 32, 64}) {
    for (int block = 0; block < 3; ++block) {
      net->push_back(Block(in, out, in == out ? 1 : 2));
      in = out;
    }
  }
  net->push_back(nn::AdaptiveAvgPool2d(1));
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(64, kClasses));
  return net;
}

enum class Loss { kMeanSquaredError, kCrossEntropy };

struct Batch {
  Tensor x, target;
};

std::vector<Batch> random_batches(const std::vector<int64_t>& shape, Loss loss,
                                  torch::MemoryFormat layout) {
  std::vector<Batch> batches;
  for (int i = 0; i < kBatches; ++i) {
    const int64_t count = shape[0];
    batches.push_back({torch::randn(shape).contiguous(layout),
                       loss == Loss::kMeanSquaredError
                           ? torch::randn({count, 5})
                           : torch::randint(kClasses, {count}, torch::kLong)});
  }
  return batches;
}

Case torch_case(const std::string& name, nn::Sequential (*make)(), std::vector<int64_t> shape,
                Loss loss, torch::MemoryFormat layout) {
  const auto build = [=]() -> std::function<float()> {
    torch::manual_seed(0);
    nn::Sequential net = make();
    for (Tensor& parameter : net->parameters()) {
      if (parameter.dim() == 4) parameter.set_data(parameter.data().contiguous(layout));
    }
    const double rate = loss == Loss::kMeanSquaredError ? 0.01 : 0.005;
    const auto optimizer = std::make_shared<torch::optim::SGD>(
        net->parameters(), torch::optim::SGDOptions(rate).momentum(0.9));
    return [=, batches = random_batches(shape, loss, layout), next = size_t{0}]() mutable {
      const Batch& batch = batches[next++ % kBatches];
      optimizer->zero_grad();
      const Tensor output = net->forward(batch.x);
      const Tensor value = loss == Loss::kMeanSquaredError
                               ? torch::mse_loss(output, batch.target)
                               : torch::nn::functional::cross_entropy(output, batch.target);
      value.backward();
      optimizer->step();
      return value.item<float>();
    };
  };
  const std::string variant = layout == torch::MemoryFormat::ChannelsLast ? "@channels_last" : "";
  return step_case(name + variant, static_cast<int>(shape[0]), build);
}

}  // namespace
}  // namespace ringrad::bench

int main(int argc, char** argv) {
  using namespace ringrad::bench;
  const auto plain = torch::MemoryFormat::Contiguous;
  const auto channels_last = torch::MemoryFormat::ChannelsLast;
  return run_cases(
      argc, argv, "torch",
      {torch_case("tiny_mlp/B:32", tiny_mlp, {32, 10}, Loss::kMeanSquaredError, plain),
       torch_case("mlp/B:128", mlp, {128, 784}, Loss::kCrossEntropy, plain),
       torch_case("convnet/B:128", convnet, {128, 1, 28, 28}, Loss::kCrossEntropy, plain),
       torch_case("convnet/B:128", convnet, {128, 1, 28, 28}, Loss::kCrossEntropy, channels_last),
       torch_case("resnet20/B:64", resnet20, {64, 3, 32, 32}, Loss::kCrossEntropy, plain),
       torch_case("resnet20/B:64", resnet20, {64, 3, 32, 32}, Loss::kCrossEntropy, channels_last)});
}
