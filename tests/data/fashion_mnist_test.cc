#include "ringrad/data/fashion_mnist.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "ringrad/tests/data/idx_file.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::Bytes;
using testing::expect_throws;
using testing::gzip;
using testing::idx_file;

std::uint32_t checksum(const Tensor& bytes) {
  return static_cast<std::uint32_t>(
      crc32(0, bytes.data<std::uint8_t>(), static_cast<uInt>(bytes.numel())));
}

std::vector<std::int64_t> histogram(const Tensor& labels) {
  std::vector<std::int64_t> counts(kFashionMnistClasses.size());
  for (const auto label : labels.to_vector<std::int64_t>())
    ++counts[static_cast<std::size_t>(label)];
  return counts;
}

// -- The real files, from the Debian package ------------------------------------------------------

// Inflating is slow: the files are read once for all tests.
const TensorDataset& real(Split split) {
  static const TensorDataset train = fashion_mnist(Split::train), test = fashion_mnist(Split::test);
  return split == Split::train ? train : test;
}

TEST(FashionMnistTest, HoldsAllClassesEquallyOften) {
  const TensorDataset &train = real(Split::train), &test = real(Split::test);
  EXPECT_EQ(train.tensors()[0].shape(), (Shape{60000, 1, 28, 28}));
  EXPECT_EQ(test.tensors()[0].shape(), (Shape{10000, 1, 28, 28}));
  EXPECT_EQ(train.tensors()[0].dtype(), DType::uint8);
  EXPECT_EQ(train.tensors()[1].dtype(), DType::int64);
  EXPECT_EQ(histogram(train.tensors()[1]), std::vector<std::int64_t>(10, 6000));
  EXPECT_EQ(histogram(test.tensors()[1]), std::vector<std::int64_t>(10, 1000));
}

// CRC-32 as Python's zlib.crc32 gives it for the bytes after the header.
TEST(FashionMnistTest, HoldsThePixelsOfThePublishedFiles) {
  EXPECT_EQ(checksum(real(Split::train).tensors()[0]), 0xae65dccdu);
  EXPECT_EQ(checksum(real(Split::test).tensors()[0]), 0x12728439u);
}

TEST(FashionMnistTest, BeginsWithAnAnkleBootAndATShirt) {
  const auto labels = real(Split::train).tensors()[1].to_vector<std::int64_t>();
  EXPECT_EQ(kFashionMnistClasses[static_cast<std::size_t>(labels[0])], "Ankle boot");
  EXPECT_EQ(kFashionMnistClasses[static_cast<std::size_t>(labels[1])], "T-shirt/top");
}

TEST(FashionMnistTest, ConstantsAreThoseOfTheTrainingPixels) {
  const Tensor& images = real(Split::train).tensors()[0];
  double sum = 0, squares = 0;
  const auto* pixel = images.data<std::uint8_t>();
  for (std::int64_t i = 0; i < images.numel(); ++i) {
    sum += pixel[i];
    squares += pixel[i] * pixel[i];
  }
  const double mean = sum / static_cast<double>(images.numel());
  const double variance = squares / static_cast<double>(images.numel()) - mean * mean;
  EXPECT_NEAR(mean / 255, double{kFashionMnistMean}, 5e-5);
  EXPECT_NEAR(std::sqrt(variance) / 255, double{kFashionMnistDeviation}, 5e-5);
}

// -- Small files of the same names ----------------------------------------------------------------

// Writes a training set into the test's folder.
std::filesystem::path folder_with(const Bytes& images, const Bytes& labels) {
  const auto folder = testing::test_folder();
  testing::write_file(folder / "train-images-idx3-ubyte", images);
  testing::write_file(folder / "train-labels-idx1-ubyte.gz", gzip(labels));
  return folder;
}

Bytes images_file(std::uint32_t count, std::uint32_t width = 28) {
  return idx_file(0x08, {count, 28, width}, Bytes(std::size_t{count} * 28 * width, 5));
}

TEST(FashionMnistTest, ReadsPlainAndCompressedFiles) {
  const auto folder = folder_with(images_file(3), idx_file(0x08, {3}, {9, 0, 4}));
  const TensorDataset set = fashion_mnist(Split::train, folder);
  EXPECT_EQ(set.size(), 3);
  testing::expect_close(set.tensors()[1], {9, 0, 4});
}

TEST(FashionMnistTest, ThrowsWhenTheCountsDiffer) {
  const auto folder = folder_with(images_file(3), idx_file(0x08, {2}, {9, 0}));
  expect_throws<DataError>([&] { fashion_mnist(Split::train, folder); }, "got 3 images in ");
  expect_throws<DataError>([&] { fashion_mnist(Split::train, folder); }, " and 2 labels in ");
}

TEST(FashionMnistTest, ThrowsForFilesOfAnotherKind) {
  const Bytes labels = idx_file(0x08, {3}, {9, 0, 4});
  expect_throws<DataError>(
      [&] { fashion_mnist(Split::train, folder_with(images_file(3, 32), labels)); },
      "must hold uint8 images (N, 28, 28); got uint8 (3, 28, 32)");
  expect_throws<DataError>([&] { fashion_mnist(Split::train, folder_with(labels, labels)); },
                           "must hold uint8 images (N, 28, 28); got uint8 (3,)");
  expect_throws<DataError>(
      [&] { fashion_mnist(Split::train, folder_with(images_file(3), images_file(3))); },
      "must hold uint8 labels (N,); got uint8 (3, 28, 28)");
}

TEST(FashionMnistTest, ThrowsForALabelOfNoClass) {
  const auto folder = folder_with(images_file(3), idx_file(0x08, {3}, {9, 10, 4}));
  expect_throws<DataError>([&] { fashion_mnist(Split::train, folder); },
                           "must hold labels below 10; got 10 at sample 1");
}

TEST(FashionMnistTest, NamesTheMissingFile) {
  expect_throws<DataError>([&] { fashion_mnist(Split::test, testing::test_folder()); },
                           "t10k-images-idx3-ubyte.gz must be a readable file; got ");
}

}  // namespace
}  // namespace ringrad
