#include "ringrad/data/fashion_mnist.h"

#include <cstdint>
#include <string>
#include <system_error>

#include "ringrad/core/view.h"
#include "ringrad/data/idx.h"

namespace ringrad {
namespace {

constexpr std::int64_t kPixels = 28;

std::filesystem::path find(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path plain = folder / name;
  std::error_code ignored;  // read_idx reports any problem
  return std::filesystem::exists(plain, ignored) ? plain : folder / (name + ".gz");
}

Tensor read_images(const std::filesystem::path& path, Where where) {
  const Tensor images = read_idx(path, where);
  const bool fits = images.dtype() == DType::uint8 &&
                    images.shape() == Shape{images.shape()[0], kPixels, kPixels};
  RINGRAD_CHECK(fits, DataError, where, "fashion_mnist: ", path.string(),
                " must hold uint8 images (N, 28, 28); got ", images.dtype(), ' ', images.shape());
  return view::unsqueeze(images, 1, where);
}

Tensor read_labels(const std::filesystem::path& path, Where where) {
  const Tensor labels = read_idx(path, where);
  const bool fits = labels.dtype() == DType::uint8 && labels.dims() == 1;
  RINGRAD_CHECK(fits, DataError, where, "fashion_mnist: ", path.string(),
                " must hold uint8 labels (N,); got ", labels.dtype(), ' ', labels.shape());

  const Tensor result = empty(labels.shape(), {.dtype = DType::int64, .device = Device()}, where);
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    const std::int64_t label = labels.data<std::uint8_t>()[i];
    RINGRAD_CHECK(label < std::ssize(kFashionMnistClasses), DataError, where,
                  "fashion_mnist: ", path.string(), " must hold labels below ",
                  kFashionMnistClasses.size(), "; got ", label, " at sample ", i);
    result.data<std::int64_t>()[i] = label;
  }
  return result;
}

}  // namespace

TensorDataset fashion_mnist(Split split, const std::filesystem::path& folder, Where where) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const auto images_path = find(folder, prefix + "-images-idx3-ubyte");
  const auto labels_path = find(folder, prefix + "-labels-idx1-ubyte");
  const Tensor images = read_images(images_path, where);
  const Tensor labels = read_labels(labels_path, where);
  RINGRAD_CHECK(images.shape()[0] == labels.shape()[0], DataError, where,
                "fashion_mnist: there must be as many labels as images; got ", images.shape()[0],
                " images in ", images_path.string(), " and ", labels.shape()[0], " labels in ",
                labels_path.string());
  return TensorDataset({images, labels}, where);
}

}  // namespace ringrad
