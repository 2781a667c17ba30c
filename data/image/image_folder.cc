#include "ringrad/data/image/image_folder.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "ringrad/data/collate.h"

namespace ringrad {
namespace {

namespace fs = std::filesystem;

constexpr int kMostFolders = 32;  // one inside the other: links to folders may form a circle

enum class Kind { image, other_image, other };

// By the end of the name, as torchvision does.
Kind kind_of(const fs::path& path) {
  std::string name = path.filename().string();
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const auto ends_in = [&](std::string_view end) { return name.ends_with(end); };
  constexpr std::array kRead = {".png", ".jpg", ".jpeg"};
  constexpr std::array kNotRead = {".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};
  if (std::any_of(kRead.begin(), kRead.end(), ends_in)) return Kind::image;
  if (std::any_of(kNotRead.begin(), kNotRead.end(), ends_in)) return Kind::other_image;
  return Kind::other;
}

void check_listed(const fs::path& folder, const std::error_code& error, Where where) {
  RINGRAD_CHECK(!error, DataError, where, "ImageFolder: ", folder.string(),
                " must be a folder that can be listed; got ", error.message());
}

std::vector<fs::path> entries_of(const fs::path& folder, Where where) {
  std::vector<fs::path> entries;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  check_listed(folder, error, where);
  while (entry != fs::directory_iterator()) {
    entries.push_back(entry->path());
    entry.increment(error);
    check_listed(folder, error, where);
  }
  return entries;
}

bool is_folder(const fs::path& path) {
  std::error_code error;  // a link to nothing is no folder
  return fs::is_directory(path, error);
}

// Appends the images in a folder and below it, in any order.
void find_images(const fs::path& folder, int depth, std::vector<fs::path>& images, Where where) {
  RINGRAD_CHECK(depth <= kMostFolders, DataError, where, "ImageFolder: ", folder.string(),
                " must lie in at most ", kMostFolders, " folders of its class; got more");
  for (fs::path& entry : entries_of(folder, where)) {
    if (is_folder(entry)) {
      find_images(entry, depth + 1, images, where);
      continue;
    }
    const Kind kind = kind_of(entry);
    RINGRAD_CHECK(kind != Kind::other_image, DataError, where, "ImageFolder: ", entry.string(),
                  " must be a PNG or JPEG file; got another format");
    if (kind == Kind::image) images.push_back(std::move(entry));
  }
}

// By the bytes of the folder, then of the name: the order of sorted(os.walk(..)) in Python.
bool comes_before(const fs::path& a, const fs::path& b) {
  return std::tuple(a.parent_path().string(), a.filename().string()) <
         std::tuple(b.parent_path().string(), b.filename().string());
}

std::vector<fs::path> images_of_class(const fs::path& folder, Where where) {
  std::vector<fs::path> images;
  find_images(folder, 0, images, where);
  RINGRAD_CHECK(!images.empty(), DataError, where, "ImageFolder: ", folder.string(),
                " must have an image (.png, .jpg or .jpeg); got none");
  std::sort(images.begin(), images.end(), comes_before);
  return images;
}

}  // namespace

ImageFolder::ImageFolder(const fs::path& folder, ImageFolderOptions options, Where where)
    : options_(std::move(options)) {
  for (const fs::path& entry : entries_of(folder, where))
    if (is_folder(entry)) classes_.push_back(entry.filename().string());
  std::sort(classes_.begin(), classes_.end());
  RINGRAD_CHECK(!classes_.empty(), DataError, where, "ImageFolder: ", folder.string(),
                " must have a folder per class; got none");
  for (std::size_t target = 0; target < classes_.size(); ++target)
    for (fs::path& image : images_of_class(folder / classes_[target], where))
      files_.push_back({std::move(image), static_cast<std::int64_t>(target)});
}

Batch ImageFolder::fetch(std::span<const std::int64_t> indices, Where where) const {
  const auto file = [&](std::int64_t index) -> const File& {
    return files_[static_cast<std::size_t>(index)];
  };
  std::vector<Sample> samples;
  for (const std::int64_t index : indices) {
    RINGRAD_CHECK(index >= 0 && index < size(), IndexError, where, "fetch: indices must be in [0, ",
                  size(), "); got ", index);
    const auto& [path, target] = file(index);
    Tensor image = read_image(path, options_.image, where);
    if (options_.prepare) image = options_.prepare(image, where);
    const Shape& shape = samples.empty() ? image.shape(where) : samples.front().front().shape();
    RINGRAD_CHECK(image.shape(where) == shape, ShapeError, where,
                  "ImageFolder: the images of a batch must have one shape; got ", shape, " for ",
                  file(indices.front()).path.string(), " and ", image.shape(), " for ",
                  path.string(), "; resize or crop them in ImageFolderOptions::prepare");
    samples.push_back({image, full({}, target, {.dtype = DType::int64, .device = Device()})});
  }
  return collate(samples, where);
}

}  // namespace ringrad
