// The files in files/ and the pixels beside them were made by make_files.py: PIL is the reference.

#include "ringrad/data/image/image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

// After <cstdio>, whose types it needs:
#include <jpeglib.h>

#include "ringrad/core/base/allocator.h"
#include "ringrad/core/view.h"
#include "ringrad/data/image/resize.h"
#include "ringrad/data/npy.h"
#include "ringrad/tests/core/file/file_rules.h"
#include "ringrad/tests/data/idx_file.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::Bytes;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;
using testing::test_folder;

const std::filesystem::path kFiles = "tests/data/image/files";

Bytes content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

Tensor pixels_in(const std::string& name) { return read_npy(kFiles / (name + ".npy")); }

Tensor decoded(const Bytes& bytes, const ImageOptions& options = {}) {
  return decode_image(std::as_bytes(std::span(bytes)), options);
}

// A gray JPEG of 127 scans: each coefficient by itself, and its last bit once more.
Bytes jpeg_of_many_scans() {
  std::vector<jpeg_scan_info> scans = {{1, {0}, 0, 0, 0, 0}};
  for (const int last_bit : {1, 0})
    for (int k = 1; k < 64; ++k) scans.push_back({1, {0}, k, k, last_bit ? 0 : 1, last_bit});
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_height = info.image_width = 8;
  info.input_components = 1;
  info.in_color_space = JCS_GRAYSCALE;
  jpeg_set_defaults(&info);
  info.scan_info = scans.data();
  info.num_scans = static_cast<int>(scans.size());
  jpeg_start_compress(&info, TRUE);
  unsigned char samples[8] = {0, 255, 0, 255, 9, 0, 255, 7};
  JSAMPROW row = samples;
  while (info.next_scanline < 8) jpeg_write_scanlines(&info, &row, 1);
  jpeg_finish_compress(&info);
  Bytes result(bytes, bytes + size);
  std::free(bytes);
  jpeg_destroy_compress(&info);
  return result;
}

TEST(ImageTest, PixelsAreThoseThatPilReads) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFiles)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".npy")) continue;
    ++count;
    SCOPED_TRACE(name);
    const Tensor image = read_image(entry.path());
    expect_same_bits(image, pixels_in(name));
    EXPECT_TRUE(image.is_contiguous());
    expect_same_bits(decoded(content_of(entry.path())), image);
  }
  EXPECT_EQ(count, 18);
}

TEST(ImageTest, ChannelsAreConverted) {
  const auto read = [](const char* name, Channels channels) {
    return read_image(kFiles / name, {.channels = channels});
  };
  expect_same_bits(read("rgb.png", Channels::gray), pixels_in("rgb.png.gray"));
  const Tensor rgba = pixels_in("rgba.png"), gray_alpha = pixels_in("gray_alpha.png");
  expect_same_bits(read("rgba.png", Channels::rgb), view::slice(rgba, 0, 0, 3));
  expect_same_bits(read("gray_alpha.png", Channels::gray), view::slice(gray_alpha, 0, 0, 1));
  for (const char* name : {"gray.png", "gray.jpg", "gray_alpha.png"}) {
    const Tensor gray = view::slice(pixels_in(name), 0, 0, 1);
    const Tensor colors = read(name, Channels::rgb);
    ASSERT_EQ(colors.shape(), (Shape{3, 9, 11}));
    for (int c = 0; c < 3; ++c) expect_same_bits(view::slice(colors, 0, c, c + 1), gray);
  }
}

TEST(ImageTest, WhatWasWrittenIsReadAgain) {
  Random random(1);
  const auto path = test_folder() / "x.png";
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    const Tensor image = random.tensor({channels, 5, 7}, DType::uint8);
    write_png(path, image);
    expect_same_bits(read_image(path), image);
    write_png(path, view::transpose(image, 1, 2));
    expect_same_bits(read_image(path), random.strided(view::transpose(image, 1, 2)));
  }
}

TEST(ImageTest, FilesAreWrittenAsAllFiles) {
  testing::expect_file_rules([](const auto& path) {
    write_png(path, ones({3, 2, 2}, {.dtype = DType::uint8}));
  });
}

TEST(ImageTest, ACutNamesTheSize) {
  for (const char* name : {"rgb.png", "rgb.jpg"}) {
    const Bytes bytes = content_of(kFiles / name);
    const Tensor whole = decoded(bytes);
    expect_throws<DataError>([&] { decoded(Bytes(bytes.begin(), bytes.end() - 20)); },
                             concat(" in ", whole.shape()[1], " x ", whole.shape()[2],
                                    " pixels of ", bytes.size() - 20));
  }
}

TEST(ImageTest, EveryCutIsSeen) {
  for (const char* name :
       {"rgb.png", "gray1_interlaced.png", "rgb.jpg", "rgb_progressive.jpg", "cmyk.jpg"}) {
    const Bytes bytes = content_of(kFiles / name);
    for (auto end = bytes.begin(); end != bytes.end(); ++end)
      EXPECT_THROW(decoded(Bytes(bytes.begin(), end)), DataError)
          << name << " of " << end - bytes.begin() << " bytes";
  }
}

TEST(ImageTest, ADamagedByteCausesADataErrorOrOtherPixels) {
  for (const char* name : {"palette.png", "rgb_interlaced.png", "rgb.jpg", "rgb_progressive.jpg"}) {
    const Bytes bytes = content_of(kFiles / name);
    int refused = 0;
    for (std::size_t at = 0; at < bytes.size(); ++at)
      for (const int change : {0x01, 0x80, 0xff}) {
        Bytes damaged = bytes;
        damaged[at] = static_cast<std::uint8_t>(damaged[at] ^ change);
        try {
          decoded(damaged);
        } catch (const DataError&) {
          ++refused;
        }
      }
    EXPECT_GT(refused, 0) << name;
  }
}

TEST(ImageTest, AllocatesNoMoreThanTheFileCanHold) {
  Bytes png = content_of(kFiles / "rgb.png"), jpeg = content_of(kFiles / "rgb.jpg");
  const auto largest = [](const Bytes& bytes, std::int64_t pixels, const char* text) {
    expect_throws<DataError>([&] { decoded(bytes, {.most_pixels = pixels}); }, text);
  };
  reset_peak_stats();
  const auto used = allocator_stats().peak_allocated_bytes;
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  const Bytes marker = {0xff, 0xc0};
  const auto frame = std::search(jpeg.begin(), jpeg.end(), marker.begin(), marker.end());
  ASSERT_NE(frame, jpeg.end());
  frame[5] = frame[7] = 0xff;  // 65289 x 65291
  largest(jpeg, kMany, "must have a bit or more for each of");
  largest(jpeg, 1 << 20, "must have at most 1048576 pixels; got 65289 x 65291");
  // A header whose width, height and checksum are of 65535 x 65535.
  const Bytes header = {0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff, 8, 2, 0, 0, 0, 0x39, 0x67, 0x4e, 0x07};
  std::copy(header.begin(), header.end(), png.begin() + 16);
  largest(png, kMany, "must be long enough for 65535 x 65535 pixels");
  largest(png, 1 << 20, "must have at most 1048576 pixels; got 65535 x 65535");
  EXPECT_EQ(allocator_stats().peak_allocated_bytes, used);
}

TEST(ImageTest, RefusesMoreScansThanEncodersWrite) {
  expect_throws<DataError>([] { decoded(jpeg_of_many_scans()); },
                           "must be an undamaged JPEG file; got more than 100 scans");
}

TEST(ImageTest, RefusesWhatIsNoImage) {
  const auto folder = test_folder();
  expect_throws<DataError>([&] { read_image(folder / "none.png"); }, "none.png must be a readable");
  expect_throws<DataError>([&] { read_image(folder); }, "must be a regular file; got a directory");
  expect_throws<DataError>(
      [&] {
        read_image(testing::file_with({'B', 'M', 1, 2}));
      },
      R"(must begin as a PNG or JPEG file does; got "BM\x01\x02")");
  expect_throws<DataError>([] { decoded({}); }, "decode_image: the image must begin as a PNG");
  expect_throws<DataError>([] { read_image(kFiles / "rgb.png", {.most_file_bytes = 50}); },
                           "rgb.png must have at most 50 bytes; got more");
  const auto path = folder / "x.png";
  expect_throws<DTypeError>(
      [&] {
        write_png(path, ones({1, 2, 2}));
      },
      "must be uint8; got float32");
  const Options bytes{.dtype = DType::uint8};
  for (const Shape& shape : {Shape{2, 2}, Shape{5, 2, 2}, Shape{3, 0, 2}})
    expect_throws<ShapeError>([&] { write_png(path, ones(shape, bytes)); }, "1 to 4 channels");
  expect_throws<DataError>(
      [&] {
        write_png(folder / "none" / "x.png", ones({1, 2, 2}, bytes));
      },
      "x.png must be writable");
}

TEST(ResizeTest, AgreesWithPil) {
  const Tensor image = read_image(kFiles / "rgb.png");
  expect_same_bits(resize(image, {4, 5}), pixels_in("rgb.png.4x5"));
  expect_same_bits(resize(image, {20, 3}), pixels_in("rgb.png.20x3"));
  expect_same_bits(resize(image, {9, 11}), image);
  expect_same_bits(resize(view::select(image, 0, 1), {4, 5}),
                   view::select(pixels_in("rgb.png.4x5"), 0, 1));
}

TEST(ResizeTest, ThrowsForWhatHasNoPixels) {
  const Options bytes{.dtype = DType::uint8};
  expect_throws<ValueError>([&] { resize(ones({2, 2}, bytes), {0, 3}); }, "positive; got (0, 3)");
  expect_throws<ShapeError>([&] { resize(ones({3, 0, 2}, bytes), {1, 1}); }, "not empty; got");
  expect_throws<ShapeError>([&] { resize(ones({3}, bytes), {1, 1}); }, "must be (.., H, W)");
  expect_throws<DTypeError>([&] { resize(ones({2, 2}), {1, 1}); }, "must be uint8; got float32");
}

}  // namespace
}  // namespace ringrad
