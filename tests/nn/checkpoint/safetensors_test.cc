// Files of other programs in the same format, read and mapped.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ringrad/nn/checkpoint/tensor_file.h"
#include "ringrad/tests/nn/checkpoint/folder.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using ringrad::testing::expect_same_bits;
using ringrad::testing::expect_throws;
using ringrad::testing::Folder;
using ringrad::testing::write_bytes;

// A file as other programs write it: without a checksum.
std::string foreign_file(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

TEST(SafetensorsTest, FilesOfOtherProgramsNeedNoChecksum) {
  const Folder folder;
  const auto path = folder.path() / "file";
  write_bytes(path, foreign_file(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},)"
                                 R"("b":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})",
                                 "\x01\x02\x03"));
  const auto read = read_safetensors(path, std::vector<std::string>{"a"});
  EXPECT_EQ(read.at("a").to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{2, 3}));
  expect_throws<DataError>([&] { read_safetensors(path); }, {"I8 in \"b\""});
  expect_throws<DataError>([&] { read_safetensors(path, std::vector<std::string>{"c"}); },
                           {"no \"c\""});
  expect_throws<DataError>([&] { read_tensors(path); }, {"checksum"});
}

// What safetensors 0.8.0 of Python writes for eight NumPy arrays, of which one has a dtype that we
// lack.
TEST(SafetensorsTest, ReadsWhatTheReferenceWrites) {
  const std::string header =
      R"({"__metadata__":{"format":"np"},"n":{"dtype":"I64","shape":[3],"data_offsets":[0,24]},)"
      R"("d":{"dtype":"F64","shape":[],"data_offsets":[24,32]},)"
      R"("e":{"dtype":"F32","shape":[0,3],"data_offsets":[32,32]},)"
      R"("w":{"dtype":"F32","shape":[2,2],"data_offsets":[32,48]},)"
      R"("h":{"dtype":"F16","shape":[2],"data_offsets":[48,52]},)"
      R"("i":{"dtype":"I16","shape":[1],"data_offsets":[52,54]},)"
      R"("u":{"dtype":"U8","shape":[2],"data_offsets":[54,56]},)"
      R"("t":{"dtype":"BOOL","shape":[2],"data_offsets":[56,58]}}      )";
  const unsigned char data[] = {
      1,    0,    0,    0, 0,    0,    0,    0,    0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
      0xff, 3,    0,    0, 0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
      2,    0x40, 0,    0, 0xc0, 0x3f, 0,    0,    0,    0xc0, 0,    0,    0x40, 0x40, 0,
      0,    0x80, 0x40, 0, 0x38, 0,    0xbc, 0xff, 0xff, 7,    0xff, 1,    0};
  const Folder folder;
  const auto path = folder.path() / "file";
  write_bytes(path, foreign_file(header, {reinterpret_cast<const char*>(data), sizeof data}));
  const StateDict read =
      read_safetensors(path, std::vector<std::string>{"w", "h", "n", "t", "u", "d", "e"});
  EXPECT_EQ(read.at("w").to_vector<float>(), (std::vector<float>{1.5, -2, 3, 4}));
  EXPECT_EQ(read.at("w").shape(), (Shape{2, 2}));
  EXPECT_EQ(read.at("h").to_vector<float16>(),
            (std::vector<float16>{float16(0.5F), float16(-1.F)}));
  EXPECT_EQ(read.at("n").to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, -2, 3}));
  EXPECT_EQ(read.at("u").to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{7, 255}));
  EXPECT_EQ(read.at("d").item<double>(), 2.25);
  EXPECT_EQ(read.at("e").shape(), (Shape{0, 3}));
  EXPECT_EQ(read.at("t").dtype(), DType::bool_);
  EXPECT_EQ(read.at("t").to_vector<bool>(), (std::vector<bool>{true, false}));
  expect_throws<DataError>([&] { read_safetensors(path); }, {"I16 in \"i\""});
}

// Made by safetensors/make_every_dtype.py: one tensor for each dtype that Python's safetensors
// 0.8.0 can write, with bytes 0 and 1 in turn.
TEST(SafetensorsTest, DTypesThatTheLibraryLacksAreRefusedByName) {
  const std::filesystem::path path = "tests/nn/checkpoint/safetensors/every_dtype.safetensors";
  const std::map<std::string, DType> ours = {
      {"bool", DType::bool_},      {"uint8", DType::uint8},     {"int32", DType::int32},
      {"int64", DType::int64},     {"float16", DType::float16}, {"bfloat16", DType::bfloat16},
      {"float32", DType::float32}, {"float64", DType::float64}};
  std::vector<std::string> names;
  for (const auto& [name, dtype] : ours) names.push_back(name);
  for (const StateDict& read : {read_safetensors(path, names), map_safetensors(path, names)})
    for (const auto& [name, dtype] : ours) {
      const Tensor& x = read.at(name);
      EXPECT_EQ(x.dtype(), dtype);
      EXPECT_EQ(x.shape(), Shape({8}));
      for (std::size_t i = 0; i < 8 * size_bytes(dtype); ++i)
        EXPECT_EQ(static_cast<std::size_t>(x.raw_data()[i]), i % 2) << name;
    }
  for (const auto& [name, kind] :
       std::map<std::string, std::string>{{"int8", "I8"},
                                          {"int16", "I16"},
                                          {"uint16", "U16"},
                                          {"uint32", "U32"},
                                          {"uint64", "U64"},
                                          {"complex64", "C64"},
                                          {"float8_e4m3fn", "F8_E4M3"},
                                          {"float8_e5m2", "F8_E5M2"},
                                          {"float8_e8m0fnu", "F8_E8M0"},
                                          {"float8_e4m3fnuz", "F8_E4M3FNUZ"},
                                          {"float8_e5m2fnuz", "F8_E5M2FNUZ"},
                                          {"float4_e2m1fn_x2", "F4"}})
    expect_throws<DataError>([&] { read_safetensors(path, std::vector<std::string>{name}); },
                             {kind + " in \"" + name + '"'});
}

TEST(SafetensorsTest, ErrorsNameTensorDTypeAndSize) {
  const Folder folder;
  const auto path = folder.path() / "file";
  const auto refused = [&](const std::string& header, const std::string& text) {
    write_bytes(path, foreign_file(header, std::string(8, 'x')));
    expect_throws<DataError>([&] { read_safetensors(path); }, text);
    expect_throws<DataError>([&] { map_safetensors(path); }, text);
  };
  refused(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})",
          ", which is cut off: the file holds 8 of the 12 bytes up to its end");
  refused(R"({"w":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})",
          ", whose dtype \"F33\" the format lacks");
  refused(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
          ", whose dtype and shape take 12 bytes");
  write_bytes(path, "1234567");
  expect_throws<DataError>([&] { read_safetensors(path); },
                           "must begin with a header's length of 8 bytes; got a file of 7 bytes");
}

TEST(SafetensorsTest, MappedTensorsShareTheFilesPages) {
  const Folder folder;
  const auto path = folder.path() / "file";
  write_tensors(path,
                {{"x", arange(1000.0)}, {"flag", tensor({true, false})}, {"none", zeros({0})}});
  const StateDict mapped = map_safetensors(path), read = read_safetensors(path);
  ASSERT_EQ(mapped.size(), 3U);
  for (const auto& [name, x] : read) expect_same_bits(mapped.at(name), x);

  // In one mapping of the file: offsets between tensors are those in the file.
  EXPECT_EQ(mapped.at("flag").raw_data() - mapped.at("x").raw_data(), 4000);

  // Writing changes a page of this process's own.
  mapped.at("x").data<float>()[0] = -1;
  EXPECT_EQ(read_safetensors(path).at("x").data<float>()[0], 0);
  EXPECT_EQ(map_safetensors(path).at("x").data<float>()[0], 0);

  // The file may go: each tensor keeps all pages alive.
  const Tensor x = map_safetensors(path, std::vector<std::string>{"x"}).at("x");
  write_tensors(path, {{"x", zeros({1})}});
  std::filesystem::remove(path);
  expect_same_bits(x, read.at("x"));
}

TEST(SafetensorsTest, MapsOnlyWhatIsAlignedAndWhole) {
  const Folder folder;
  const auto path = folder.path() / "file";
  const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("b":{"dtype":"I32","shape":[2],"data_offsets":[1,9]}})";
  const std::string data("\7\1\0\0\0\2\0\0\0", 9);
  for (std::size_t spaces = 0; spaces < 4; ++spaces) {  // one of them aligns b
    write_bytes(path, foreign_file(header + std::string(spaces, ' '), data));
    const StateDict mapped = map_safetensors(path);
    EXPECT_EQ(mapped.at("b").to_vector<int>(), (std::vector<int>{1, 2}));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapped.at("b").raw_data()) % 4, 0U);
  }
  write_bytes(path, foreign_file(header, data.substr(0, 8)));
  expect_throws<DataError>([&] { map_safetensors(path); }, {"describe tensors"});
  write_bytes(path, "");
  expect_throws<DataError>([&] { map_safetensors(path); },
                           {"mapped; got an error, or 0 of 0 bytes"});
  expect_throws<DataError>([&] { map_safetensors(folder.path()); }, {"must be a file"});
}

TEST(SafetensorsTest, DamagedFilesOfOtherProgramsAreRefused) {
  const Folder folder;
  const auto path = folder.path() / "file";
  const auto one = [](const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":"U8","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  const std::string twice = R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                            R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
  for (const std::string& bytes :
       {std::string("short"), std::string(8, '\xff') + "{}", foreign_file("[]", ""),
        foreign_file("null", ""), foreign_file("{\"\xff\":1}", ""), foreign_file(twice, ""),
        foreign_file(std::string("{}\0{", 4), ""), foreign_file("\xef\xbb\xbf{}", ""),
        foreign_file(R"({"__metadata__":{"step":1}})", ""),
        foreign_file(R"({"__metadata__":[]})", ""), foreign_file("{}", "x"),
        foreign_file(one("[2]", "[0,1]"), "x"), foreign_file(one("[1]", "[1,2]"), "xy"),
        foreign_file(one("[1]", "[1,0]"), "x"), foreign_file(one("[1]", "[0,1]"), ""),
        foreign_file(one("[-1]", "[0,1]"), "x"),
        foreign_file(one("[4294967296,4294967296]", "[0,0]"), "")}) {
    write_bytes(path, bytes);
    expect_throws<DataError>([&] { read_safetensors(path); }, {"file"});
  }
  write_bytes(path, foreign_file("{}", ""));
  EXPECT_TRUE(read_safetensors(path).empty());
}

}  // namespace
}  // namespace ringrad::nn
