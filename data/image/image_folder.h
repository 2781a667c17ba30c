// ImageFolder: a class of images per folder.
//
//     pets/cat/1.png                 classes()    {"cat", "dog"}: the folders, sorted
//     pets/cat/old/7.jpg             files()      each class in turn; its images sorted by their
//     pets/dog/2.jpeg                            folder, then by name
//
//     const ImageFolder pets("pets", {.prepare = [](const Tensor& image, Where where) {
//                                       return resize(image, {64, 64}, where);
//                                     }});
//
// Classes, targets and order are those of torchvision's ImageFolder, and the same on every machine.
// Images are read when they are fetched, by the loader's threads.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/core/tensor.h"
#include "ringrad/data/dataset.h"
#include "ringrad/data/image/image.h"
#include "ringrad/data/image/resize.h"

namespace ringrad {

struct ImageFolderOptions {
  ImageOptions image = {.channels = Channels::rgb};
  /// Turns each image (C, H, W) into what a batch holds, for example an image of a common size.
  /// Several threads may call it at once.
  std::function<Tensor(const Tensor& image, Where where)> prepare = {};
};

class ImageFolder final : public Dataset {
 public:
  struct File {
    std::filesystem::path path;
    std::int64_t target;  ///< the number of its class
  };

  /// Lists the files whose names end in .png, .jpg or .jpeg, in upper or lower case, in the folders
  /// of the classes and in folders below these. Files of other kinds are left out.
  ///
  /// Throws:  DataError, naming the path, unless the folder has a folder in it, and each of those
  ///          has an image; for an image of another format that torchvision reads (.bmp, .webp);
  ///          and if a folder cannot be listed or lies deeper than 32 others
  explicit ImageFolder(const std::filesystem::path& folder, ImageFolderOptions options = {},
                       Where where = Where::current());

  std::int64_t size() const override { return std::ssize(files_); }

  /// Images (B, C, H, W) and targets (B,) of int64.
  ///
  /// Throws:  IndexError; DataError as read_image; ShapeError, naming two files, unless all images
  ///          have one shape
  Batch fetch(std::span<const std::int64_t> indices, Where where = Where::current()) const override;

  const std::vector<std::string>& classes() const { return classes_; }
  /// In the order of their indices.
  const std::vector<File>& files() const { return files_; }

 private:
  ImageFolderOptions options_;
  std::vector<std::string> classes_;
  std::vector<File> files_;
};

}  // namespace ringrad
