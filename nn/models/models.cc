#include "ringrad/nn/models/models.h"

#include "ringrad/nn/init.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/convolution.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/pool.h"
#include "ringrad/nn/layers/residual.h"

namespace ringrad::nn {

Sequential mlp(const ImageTask& task) {
  const std::int64_t pixels = task.channels * task.height * task.width;
  return Sequential(Flatten(), Linear(pixels, 512), ReLU(), Linear(512, 512), ReLU(),
                    Linear(512, task.classes));
}

Sequential convnet(const ImageTask& task, Where where) {
  RINGRAD_CHECK(task.height >= 4 && task.width >= 4, ValueError, where,
                "convnet: images must be at least 4 x 4; got ", task.height, " x ", task.width);
  const std::int64_t features = 64 * (task.height / 4) * (task.width / 4);
  return Sequential(Conv2d(task.channels, 32, {.padding = 1}), BatchNorm2d(32), ReLU(),
                    MaxPool2d(2), Conv2d(32, 64, {.padding = 1}), BatchNorm2d(64), ReLU(),
                    MaxPool2d(2), Flatten(), Linear(features, 128), ReLU(),
                    Linear(128, task.classes));
}

namespace {

Sequential stem_of(Conv2d conv, std::int64_t channels) {
  Sequential stem;
  stem.append("conv1", std::move(conv));
  stem.append("bn1", BatchNorm2d(channels));
  stem.append("relu", ReLU());
  return stem;
}

// The stages after a stem with `channels` channels, and the classifier. `stages` gives the number
// of blocks per stage. Each stage has twice the channels of the stage before it; its first block
// halves the image, except in the first stage. Names are torchvision's. The blocks of all stages
// stand in one list, so that a pipeline can be cut between any two of them.
template <class Block>
Sequential residual_network(Sequential stem, std::int64_t channels,
                            std::initializer_list<int> stages, std::int64_t classes) {
  Sequential net = std::move(stem);
  std::int64_t in_channels = channels, stride = 1;
  int stage = 0;
  for (const int blocks : stages) {
    ++stage;
    for (int block = 0; block < blocks; ++block) {
      net.append(concat("layer", stage, '.', block),
                 Block(in_channels, channels, block == 0 ? stride : 1));
      in_channels = channels * Block::kExpansion;
    }
    channels *= 2;
    stride = 2;
  }
  net.append("avgpool", AdaptiveAvgPool2d(1));
  net.append("flatten", Flatten());
  net.append("fc", Linear(in_channels, classes));
  return net;
}

// The networks for ImageNet first reduce the image by four along each axis, and draw their filters
// by fan_out.
template <class Block>
Sequential imagenet_network(const ImageTask& task, std::initializer_list<int> stages) {
  Sequential stem = stem_of(
      Conv2d(task.channels, 64, {.kernel = 7, .stride = 2, .padding = 3, .bias = false}), 64);
  stem.append("maxpool", MaxPool2d(3, {.stride = 2, .padding = 1}));
  Sequential net = residual_network<Block>(std::move(stem), 64, stages, task.classes);
  net.visit([](const std::string&, Module& module) {
    if (const auto* conv = dynamic_cast<Conv2d*>(&module))
      kaiming_normal_(conv->weight, 0, Fan::out);
  });
  return net;
}

}  // namespace

Sequential resnet20(const ImageTask& task) {
  return residual_network<ResidualBlock>(
      stem_of(Conv2d(task.channels, 16, {.padding = 1, .bias = false}), 16), 16, {3, 3, 3},
      task.classes);
}

Sequential resnet18(const ImageTask& task) {
  return imagenet_network<ResidualBlock>(task, {2, 2, 2, 2});
}

Sequential resnet50(const ImageTask& task) {
  return imagenet_network<Bottleneck>(task, {3, 4, 6, 3});
}

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names{"mlp", "convnet", "resnet20", "resnet18", "resnet50"};
  return names;
}

Sequential make_model(const std::string& name, const ImageTask& task, Where where) {
  if (name == "mlp") return mlp(task);
  if (name == "convnet") return convnet(task, where);
  if (name == "resnet20") return resnet20(task);
  if (name == "resnet18") return resnet18(task);
  RINGRAD_CHECK(name == "resnet50", ValueError, where,
                "make_model: the name must be mlp, convnet, resnet20, resnet18 or resnet50; got \"",
                name, '"');
  return resnet50(task);
}

}  // namespace ringrad::nn
