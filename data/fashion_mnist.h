// Fashion-MNIST: 70,000 grey images of 28 x 28 pixels in 10 classes of clothing.
//
// The files come with Debian's package dataset-fashion-mnist. MNIST's own files have the same names
// and format, so a folder with those files gives MNIST.
//
// Paper: Xiao, Rasul, Vollgraf 2017, "Fashion-MNIST: a novel image dataset for benchmarking machine
// learning algorithms", arXiv:1708.07747

#pragma once

#include <array>
#include <filesystem>
#include <string_view>

#include "ringrad/core/base/error.h"
#include "ringrad/data/tensor_dataset.h"

namespace ringrad {

/// 60,000 training or 10,000 test images.
enum class Split { train, test };

/// Mean and standard deviation of all training pixels, after division by 255: for normalize().
inline constexpr float kFashionMnistMean = 0.2860f;
inline constexpr float kFashionMnistDeviation = 0.3530f;

inline constexpr std::array<std::string_view, 10> kFashionMnistClasses = {
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};

/// Images (N, 1, 28, 28) of uint8 and labels (N,) of int64.
///
/// Reads {train,t10k}-{images-idx3,labels-idx1}-ubyte, or the same with .gz, from the folder.
///
/// Throws:  DataError, naming the file, as read_idx does, or if images and labels do not match
TensorDataset fashion_mnist(
    Split split, const std::filesystem::path& folder = "/usr/share/datasets/fashion-mnist",
    Where where = Where::current());

}  // namespace ringrad
