#include "ringrad/data/npy.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>

#include "ringrad/core/view.h"
#include "ringrad/tests/core/file/file_rules.h"
#include "ringrad/tests/data/idx_file.h"
#include "ringrad/tests/foreign_numbers.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::Bytes;
using testing::expect_close;
using testing::expect_throws;
using testing::file_with;

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

// A file as NumPy 2.4.6 writes it for these headers: 128 bytes, then the elements.
Bytes npy(std::string_view header, const Bytes& elements, char major = 1) {
  using namespace std::string_literals;
  const int before = major == 1 ? 10 : 12;
  std::string text(header);
  text.append(static_cast<std::size_t>(127 - before) - text.size(), ' ').append("\n");
  std::string front = "\x93NUMPY"s + major + "\0"s + static_cast<char>(text.size()) + "\0"s;
  if (major > 1) front += "\0\0"s;
  return testing::concatenation(bytes_of(front + text), elements);
}

Bytes content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

// The headers and elements of these files are NumPy's own.
const Bytes kFloats = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }",
                          {0, 0, 0xc0, 0x3f, 0, 0, 0,    0xc0, 0, 0, 0,    0,
                           0, 0, 0x80, 0x7f, 0, 0, 0x40, 0x40, 0, 0, 0x80, 0x40});
const Bytes kHalves =
    npy("{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }", {0x00, 0x38, 0xff, 0x7b});
const Bytes kIntegers = npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }",
                            {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f});
const Bytes kBytes = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2), }", {0, 0xff});
const Bytes kBools = npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", {1, 0, 1});
const Bytes kEmpty = npy("{'descr': '<i8', 'fortran_order': False, 'shape': (0, 3), }", {});

TEST(NpyTest, ReadsWhatNumPyWrote) {
  const Tensor x = read_npy(file_with(kFloats));
  EXPECT_EQ(x.shape(), Shape({3, 2}));
  EXPECT_EQ(x.to_vector<float>(),
            std::vector<float>({1.5, -2, 0, std::numeric_limits<float>::infinity(), 3, 4}));
  expect_close(read_npy(file_with(kHalves)), {0.5, 65504});
  EXPECT_EQ(read_npy(file_with(kIntegers)).to_vector<int>(), std::vector<int>({-1, 2147483647}));
  EXPECT_EQ(read_npy(file_with(kBytes)).to_vector<int>(), std::vector<int>({0, 255}));
  const Tensor bools = read_npy(file_with(kBools));
  EXPECT_EQ(bools.dtype(), DType::bool_);
  EXPECT_EQ(bools.to_vector<bool>(), std::vector<bool>({true, false, true}));
  EXPECT_EQ(read_npy(file_with(kEmpty)).shape(), Shape({0, 3}));
  expect_close(read_npy(file_with(testing::gzip(kHalves))), {0.5, 65504});
}

TEST(NpyTest, ReadsColumnMajorAndBigEndianElementsAndLaterVersions) {
  const Tensor x =
      read_npy(file_with(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }",
                             {0, 0, 0,    0,    0, 0, 0x40, 0x40, 0, 0, 0x80, 0x3f,
                              0, 0, 0x80, 0x40, 0, 0, 0,    0x40, 0, 0, 0xa0, 0x40})));
  EXPECT_EQ(x.shape(), Shape({2, 3}));
  EXPECT_EQ(x.to_vector<int>(), std::vector<int>({0, 1, 2, 3, 4, 5}));
  expect_close(read_npy(file_with(npy("{'descr': '>f8', 'fortran_order': False, 'shape': (2,), }",
                                      {0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 0xc0, 2, 0, 0, 0, 0, 0, 0}))),
               {1.5, -2.25});
  for (const char major : {1, 2, 3}) {
    const Bytes scalar = npy("{'descr': '>i8', 'fortran_order': False, 'shape': (), }",
                             {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfb}, major);
    EXPECT_EQ(read_npy(file_with(scalar)).item<int>(), -5) << int{major};
  }
}

TEST(NpyTest, ReadsTheExtentsOfPython2) {
  const auto of_shape = [](const char* shape) {
    return npy(concat("{'descr': '|u1', 'fortran_order': False, 'shape': ", shape, ", }"), {1, 2});
  };
  EXPECT_EQ(read_npy(file_with(of_shape("(2L, 1L)"))).shape(), Shape({2, 1}));
  expect_throws<DataError>([&] { read_npy(file_with(of_shape("(2LL, 1)"))); }, "a tuple of");
}

TEST(NpyTest, ABoolIsZeroOrOne) {
  const Tensor x =
      read_npy(file_with(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", {7, 0})));
  EXPECT_EQ(static_cast<int>(x.raw_data()[0]), 1);
}

TEST(NpyTest, WritesTheBytesThatNumPyWrites) {
  for (const Bytes& expected : {kFloats, kHalves, kIntegers, kBytes, kBools, kEmpty}) {
    const auto path = testing::test_folder() / "x.npy";
    write_npy(path, read_npy(file_with(expected)));
    EXPECT_EQ(content_of(path), expected);
    EXPECT_FALSE(std::filesystem::exists(path.string() + ".ringrad-tmp"));
  }
}

TEST(NpyTest, WritesAnyStridesDTypeAndDevice) {
  const auto path = testing::test_folder() / "x.npy";
  const Tensor x = arange(24);
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::bfloat16) continue;
    const Tensor y = full({2, 3, 4}, 1, {.dtype = dtype});
    const Tensor part = view::slice(view::permute(y, {2, 0, 1}), 0, 1, 4, 2);
    write_npy(path, part);
    testing::expect_same_bits(read_npy(path), part);
  }
  write_npy(path, view::transpose(view::reshape(x, {4, 6}), 0, 1));
  EXPECT_EQ(read_npy(path).to_vector<int>()[1], 6);
  write_npy(path, full({3}, 2.5, {.device = "cuda"}));
  expect_close(read_npy(path), {2.5, 2.5, 2.5});
}

TEST(NpyTest, RefusesOtherElementsAndDamagedFiles) {
  const auto refused = [](const Bytes& file, const char* text) {
    expect_throws<DataError>([&] { read_npy(file_with(file)); }, text);
  };
  for (const char* type : {"'<c16'", "'|O'", "'<i2'", "'<U3'", "'=f4'", "'f4'", "'|f4'", "''",
                           "[('f0', '<i2'), ('f1', '<f4')]"})
    refused(npy(concat("{'descr': ", type, ", 'fortran_order': False, 'shape': (1,), }"), {0, 0}),
            "'descr' one of f4 f8 f2 i4 i8 u1 b1");
  for (const char* header :
       {"", "{", "{}", "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} + 1"})
    refused(npy(header, {0, 0, 0, 0}), "must have a header");
  Bytes longer = kHalves, shorter = kHalves, other = kHalves;
  longer.push_back(0);
  refused(longer, "must end after 4 bytes");
  shorter.pop_back();
  refused(shorter, "promises");
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{9}, std::size_t{50}})
    refused(Bytes(kHalves.begin(), kHalves.begin() + static_cast<std::ptrdiff_t>(size)),
            "must hold");
  other[6] = 4;
  refused(other, "version 1.0, 2.0 or 3.0");
  other[6] = 2;
  other[10] = other[11] = 0x7f;
  refused(other, "at most 65536 bytes");
  refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 0), }", {}),
          "must be long enough");
  refused(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000,), }", {}),
          "must be long enough");
}

TEST(NpyTest, RefusesWhatCannotBeWritten) {
  const auto folder = testing::test_folder();
  expect_throws<DTypeError>([&] { write_npy(folder / "x", ones({1}, {.dtype = DType::bfloat16})); },
                            "got bfloat16");
  expect_throws<DataError>([&] { write_npy(folder / "none" / "x", ones({1})); }, "write_npy: ");
  expect_throws<DataError>([&] { write_npy(folder / "none" / "x", ones({1})); },
                           "must lie in a folder that can be opened; got \"No such file");
  expect_throws<DataError>([&] { write_npy("/dev/full/x", ones({1})); }, "must be writable");
}

TEST(NpyTest, FilesAreWrittenAsAllFiles) {
  testing::expect_file_rules([](const auto& path) { write_npy(path, ones({3, 2})); });
}

TEST(NpyTest, AnUnknownDTypeIsNamed) {
  const auto path =
      file_with(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", {0, 0}));
  expect_throws<DataError>([&] { read_npy(path); },
                           "'descr' one of f4 f8 f2 i4 i8 u1 b1; got \"<c8\" in ");
}

TEST(NpyTest, FilesAreTheSameInEveryLocale) {
  const testing::ForeignNumbers guard;
  const auto path = file_with({});
  write_npy(path, arange(1234));
  testing::expect_same_bits(read_npy(path), arange(1234));
}

}  // namespace
}  // namespace ringrad
