#include "nn/models.h"

#include "nn/batch_norm.h"
#include "nn/convolution.h"
#include "nn/linear.h"
#include "nn/pool.h"
#include "nn/residual.h"

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

Sequential resnet20(const ImageTask& task) {
  Sequential net(Conv2d(task.channels, 16, {.padding = 1, .bias = false}), BatchNorm2d(16), ReLU());
  std::int64_t in_channels = 16;
  for (const std::int64_t channels : {16, 32, 64})
    for (int block = 0; block < 3; ++block) {
      const std::int64_t stride = block == 0 && channels > 16 ? 2 : 1;
      net.append(ResidualBlock(in_channels, channels, stride));
      in_channels = channels;
    }
  net.append(AdaptiveAvgPool2d(1));
  net.append(Flatten());
  net.append(Linear(64, task.classes));
  return net;
}

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names{"mlp", "convnet", "resnet20"};
  return names;
}

Sequential make_model(const std::string& name, const ImageTask& task, Where where) {
  if (name == "mlp") return mlp(task);
  if (name == "convnet") return convnet(task, where);
  RINGRAD_CHECK(name == "resnet20", ValueError, where,
                "make_model: the name must be mlp, convnet or resnet20; got \"", name, '"');
  return resnet20(task);
}

}  // namespace ringrad::nn
