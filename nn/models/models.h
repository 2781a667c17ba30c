// The networks of the examples and benchmarks.

#pragma once

#include <string>
#include <vector>

#include "ringrad/nn/layers/sequential.h"

namespace ringrad::nn {

/// The shape of the images, and the number of classes.
struct ImageTask {
  std::int64_t channels = 1;
  std::int64_t height = 28;
  std::int64_t width = 28;
  std::int64_t classes = 10;
};

/// pixels -> 512 -> 512 -> classes, with ReLU between.
Sequential mlp(const ImageTask& task = {});

/// Twice {conv 3x3, batch norm, ReLU, max pool 2}, with 32 and 64 channels, then 128 hidden units.
/// For 28 x 28 grey images: 421,834 parameters. Throws ValueError unless height and width are at
/// least 4.
Sequential convnet(const ImageTask& task = {}, Where where = Where::current());

/// Twenty layers: conv 3x3 to 16 channels, three stages of three residual blocks with 16, 32, 64
/// channels, global average.
/// Paper: He, Zhang, Ren, Sun 2015, arXiv:1512.03385, section 4.2; with 1x1 projections where the
///        shape changes
Sequential resnet20(const ImageTask& task = {});

/// The two most common networks for ImageNet: conv 7x7 with stride 2 to 64 channels, max pool, four
/// stages, global average. The stages have 2, 2, 2, 2 residual blocks with 64 to 512 channels
/// (resnet18), or 3, 4, 6, 3 bottlenecks with 256 to 2048 channels (resnet50). Layers, sizes and
/// initial values are torchvision's: 11,689,512 and 25,557,032 parameters for 3 channels and 1000
/// classes; filters from N(0, 2 / fan_out). The names and layouts of state_dict() are torchvision's
/// as well, and its files load as they are: net.load_state_dict(read_safetensors(path)).
/// Paper: He, Zhang, Ren, Sun 2015, arXiv:1512.03385, section 4.1
Sequential resnet18(const ImageTask& task = {});
Sequential resnet50(const ImageTask& task = {});

/// "mlp", "convnet", "resnet20", "resnet18", "resnet50".
const std::vector<std::string>& model_names();

/// Throws ValueError, with a list of the names, for any other name.
Sequential make_model(const std::string& name, const ImageTask& task = {},
                      Where where = Where::current());

}  // namespace ringrad::nn
