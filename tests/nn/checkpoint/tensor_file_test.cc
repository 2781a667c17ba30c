// Files of tensors: what goes in comes out, to the bit, or not at all.

#include "ringrad/nn/checkpoint/tensor_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "ringrad/core/view.h"
#include "ringrad/nn/checkpoint/generation.h"
#include "ringrad/tests/nn/checkpoint/folder.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using ringrad::testing::expect_same_bits;
using ringrad::testing::expect_throws;
using ringrad::testing::Folder;
using ringrad::testing::Random;

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

void expect_same(const StateDict& actual, const StateDict& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) expect_same_bits(actual.at(name), tensor);
}

// A file with a matching checksum. Its header has the usual beginning, then `rest_of_header`.
std::string file_with(const std::string& rest_of_header, const std::string& data) {
  const std::string front = R"({"__metadata__":{"crc32":")";
  std::string header = front + "00000000\"}" + rest_of_header;
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  bytes += header + data;
  std::array<char, 9> digits;
  std::snprintf(digits.data(), digits.size(), "%08lx",
                crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  return bytes.replace(8 + front.size(), 8, digits.data());
}

StateDict some_tensors() {
  Random random(3);
  StateDict tensors;
  for (int d = 0; d < kNumDTypes; ++d) {
    const auto dtype = static_cast<DType>(d);
    tensors.emplace(concat("random.", name(dtype)), random.tensor({3, 1, 5}, dtype));
    tensors.emplace(concat("none ", name(dtype)), random.tensor({0, 4}, dtype));
  }
  return tensors;
}

TEST(TensorFileTest, WhatGoesInComesOut) {
  const Folder folder;
  Random random(1);
  for (int round = 0; round < 40; ++round) {
    StateDict tensors;
    for (auto left = random.integer(0, 12); left > 0; --left) {
      const auto dtype = static_cast<DType>(random.integer(0, kNumDTypes));
      Tensor x = random.tensor(random.shape(8, 3, 0), dtype);
      if (random.chance(0.3)) x = random.strided(x);
      tensors.emplace(concat("tensor \"", left, "\"\\.\n\u00e9"), x);
    }
    write_tensors(folder / "tensors", tensors);
    expect_same(read_tensors(folder / "tensors"), tensors);
    EXPECT_EQ(folder.files(), std::vector<std::string>{"tensors"});
  }
}

TEST(TensorFileTest, BitsThatAreNoNumbersAreKept) {
  const Folder folder;
  const DefaultDeviceGuard guard{Device()};
  const Tensor x = empty({4});
  const std::uint32_t bits[] = {0x7fc01234, 0xff800001, 0x80000000, 0x00000001};
  std::memcpy(x.raw_data(), bits, sizeof bits);
  write_tensors(folder / "x", {{"x", x}});
  EXPECT_EQ(std::memcmp(read_tensors(folder / "x").at("x").raw_data(), bits, sizeof bits), 0);
}

TEST(TensorFileTest, EveryTruncationIsRefused) {
  const Folder folder;
  write_tensors(folder / "whole", some_tensors());
  const std::string whole = bytes_of(folder / "whole");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_bytes(folder / "cut", whole.substr(0, length));
    EXPECT_THROW(read_tensors(folder / "cut"), DataError) << length;
  }
  write_bytes(folder / "cut", whole + '\0');
  EXPECT_THROW(read_tensors(folder / "cut"), DataError);
  expect_throws<DataError>([&] { read_tensors(folder / "cut"); }, "its checksum must match; got ");
}

TEST(TensorFileTest, FlippedBitsAreRefusedWhereverTheyAre) {
  const Folder folder;
  write_tensors(folder / "whole", some_tensors());
  std::string bytes = bytes_of(folder / "whole");
  for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += 3) {
    const auto flip = [&] { bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8)); };
    flip();
    write_bytes(folder / "flipped", bytes);
    EXPECT_THROW(read_tensors(folder / "flipped"), DataError) << bit;
    flip();
  }
}

// Headers with one fault each, and a checksum that matches.
TEST(TensorFileTest, HeadersThatMakeNoSenseAreRefused) {
  const Folder folder;
  const std::string good = R"(,"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  write_bytes(folder / "file", file_with(good, "12345678"));
  EXPECT_EQ(read_tensors(folder / "file").at("a").shape(), Shape{2});
  const std::string nested = R"(,"a":)" + std::string(100'000, '[') + std::string(100'000, ']');
  for (const auto& [header, text] : std::vector<std::pair<std::string, std::string>>{
           {R"(,"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "describe tensors"},
           {R"(,"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "describe tensors"},
           {R"(,"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", "describe tensors"},
           {R"(,"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", "describe tensors"},
           {R"(,"a":{"dtype":3,"shape":[2],"data_offsets":[0,8]}})", "describe tensors"},
           {R"(,"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "describe tensors"},
           {R"(,"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", "describe tensors"},
           {R"(,"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", "describe tensors"},
           {R"(,"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", "describe tensors"},
           {R"(,"a":{"dtype":"F32","shape":[2],"data_offsets":["0","8"]}})", "describe tensors"},
           {R"(,"a":{"dtype":"F32","shape":[2]}})", "describe tensors"},
           {R"(,"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"b":1}})", "describe tensors"},
           {R"(,"a":7})", "describe tensors"},
           {R"(,"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}})",
            "describe tensors"},
           {R"(,"a":{"dtype":"F32","shape":[4611686018427387904,2],"data_offsets":[0,8]}})",
            "describe tensors"},
           {R"(,"a":{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]}})",
            "describe tensors"},
           {R"(,"a":{"dtype":"F32","shape":[18446744073709551618],"data_offsets":[0,8]}})",
            "describe tensors"},
           {R"(,"a":{"dtype":"BOOL","shape":[8],"data_offsets":[0,8]}})",
            "truth values of 0 and 1"},
           {R"(,"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "one right behind"},
           {R"(,"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "end with its last"},
           {R"(,"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
            R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
            "one right behind"},
           {R"(,"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
            R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
            "each name once"},
           {R"(,"a":{"dtype":"F32","dtype":"I32","shape":[2],"data_offsets":[0,8]}})",
            "each name once"},
           {R"(,"__metadata__":{}})", "each name once"},
           {nested, "nested at most 3 deep"},
           {"}}", "must be JSON"},
           {",", "must be JSON"},
           {R"(,"\ud800":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "must be JSON"}}) {
    SCOPED_TRACE(header.substr(0, 100));
    write_bytes(folder / "file", file_with(header, "12345678"));
    expect_throws<DataError>([&] { read_tensors(folder / "file"); }, text);
  }
}

// Whatever a header's bytes are, they are read or refused.
TEST(TensorFileTest, RandomHeadersNeverDoMore) {
  const Folder folder;
  Random random(4);
  const std::string good = R"(,"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                           R"("b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})";
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string header = good;
    for (auto left = random.integer(1, 4); left > 0; --left) {
      const auto at = static_cast<std::size_t>(random.integer(0, std::ssize(header)));
      if (random.chance(0.5))
        header[at] = "0189[]{}\",:-.eaF\\\xff"[random.integer(0, 18)];
      else
        header.insert(at, header.substr(static_cast<std::size_t>(random.integer(0, 40)), 9));
    }
    write_bytes(folder / "file", file_with(header, "123456789"));
    try {
      read_tensors(folder / "file");
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(TensorFileTest, HeadersThatAreLongerThanTheFileAreRefused) {
  const Folder folder;
  for (const std::uint64_t length :
       {std::uint64_t{1} << 20, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    std::string bytes = file_with("}", "");
    std::memcpy(bytes.data(), &length, 8);
    bytes.replace(34, 8, "00000000");
    std::array<char, 9> digits;
    std::snprintf(digits.data(), digits.size(), "%08lx",
                  crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
    write_bytes(folder / "file", bytes.replace(34, 8, digits.data()));
    expect_throws<DataError>([&] { read_tensors(folder / "file"); },
                             concat("must hold its header; got a header of ", length));
  }
}

TEST(TensorFileTest, WhatIsNoSuchFileIsNamed) {
  const Folder folder;
  expect_throws<DataError>([&] { read_tensors(folder / "absent"); }, "absent must be a file");
  expect_throws<DataError>([&] { read_tensors(folder.path()); }, "must be a file");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_throws<DataError>([&] { read_tensors(folder / "pipe"); }, "must be a file");
  write_bytes(folder / "text", std::string(100, 'x'));
  expect_throws<DataError>([&] { read_tensors(folder / "text"); },
                           "must begin with its length and checksum; got a file of 100 bytes");
}

// A disk that is full: the system refuses to let files grow.
TEST(TensorFileTest, AFullDiskLeavesTheOldFile) {
  const Folder folder;
  const StateDict old{{"x", tensor({1., 2., 3.})}};
  write_tensors(folder / "file", old);
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  for (const rlim_t most : {0, 8, 100, 4096, 30'000}) {
    rlimit small = limit;
    small.rlim_cur = most;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    expect_throws<DataError>(
        [&] {
          write_tensors(folder / "file", {{"x", zeros({10'000})}});
        },
        "file must be writable; got \"File too large\"");
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    expect_same(read_tensors(folder / "file"), old);
    EXPECT_EQ(folder.files(), std::vector<std::string>{"file"});
  }
  std::signal(SIGXFSZ, before);
}

// A file as other programs write it: without a checksum.
std::string foreign_file(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

TEST(TensorFileTest, FilesOfOtherProgramsNeedNoChecksum) {
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
TEST(TensorFileTest, ReadsWhatTheReferenceWrites) {
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
TEST(TensorFileTest, DTypesThatTheLibraryLacksAreRefusedByName) {
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

TEST(TensorFileTest, MappedTensorsShareTheFilesPages) {
  const Folder folder;
  const auto path = folder.path() / "file";
  write_tensors(path,
                {{"x", arange(1000.0)}, {"flag", tensor({true, false})}, {"none", zeros({0})}});
  const StateDict mapped = map_safetensors(path), read = read_safetensors(path);
  ASSERT_EQ(mapped.size(), 3U);
  for (const auto& [name, x] : read) testing::expect_same_bits(mapped.at(name), x);

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
  testing::expect_same_bits(x, read.at("x"));
}

TEST(TensorFileTest, MapsOnlyWhatIsAlignedAndWhole) {
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

TEST(TensorFileTest, DamagedFilesOfOtherProgramsAreRefused) {
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

TEST(TensorFileTest, ThrowsWhereNoFileCanBe) {
  const Folder folder;
  const StateDict tensors{{"x", tensor({1.})}};
  expect_throws<DataError>(
      [&] { write_tensors(folder / "absent" / "file", tensors); },
      "must lie in a folder that can be opened; got \"No such file or directory\"");
  std::filesystem::create_directory(folder / "folder");
  expect_throws<DataError>([&] { write_tensors(folder / "folder", tensors); },
                           "must be replaceable; got \"Is a directory\"");
  EXPECT_EQ(folder.files(), std::vector<std::string>{"folder"});
  expect_throws<ValueError>(
      [&] {
        write_tensors(folder / "file", {{"\xff", tensor({1.})}});
      },
      "names must be UTF-8");
  expect_throws<ValueError>(
      [&] {
        write_tensors(folder / "file", {{"__metadata__", tensor({1.})}});
      },
      "belongs to the format");
  EXPECT_EQ(folder.files(), std::vector<std::string>{"folder"});
}

// A terminal must not obey a damaged file.
TEST(TensorFileTest, ErrorsShowNoRawBytesOfTheFile) {
  const Folder folder;
  for (const std::string header :
       {",\"\\u001b[2J\":7}", ",\"a\x1b[2J\":7}", ",\"a\":\xff\x9b}",
        ",\"a\":{\"dtype\":\"\\u009b2J\",\"shape\":[],\"data_offsets\":[0,8]}}"}) {
    write_bytes(folder / "file", file_with(header, "12345678"));
    try {
      read_tensors(folder / "file");
      ADD_FAILURE() << "accepted";
    } catch (const DataError& error) {
      for (const char c : error.message()) EXPECT_TRUE(c >= ' ' && c < 0x7f) << error.message();
    }
  }
}

TEST(TensorFileTest, AnEarlierGenerationReplacesNothing) {
  const Folder folder;
  const StateDict first{{"x", tensor({1.})}}, second{{"x", tensor({2.})}};
  write_tensors(folder / "file", first);
  write_tensors(folder / "file", second, 5);  // no generation is earlier than any
  write_tensors(folder / "file", second, 5);
  EXPECT_EQ(tensor_file_facts(folder / "file")->generation, 5);
  expect_throws<DataError>([&] { write_tensors(folder / "file", first, 4); },
                           "must be of this run or an earlier one; got generation 5, later than 4");
  expect_same(read_tensors(folder / "file"), second);
}

// It could be of a later run, or of a later version of the format.
TEST(TensorFileTest, AFileWithoutAReadableGenerationIsNotReplaced) {
  const Folder folder;
  const StateDict state{{"x", tensor({1.})}};
  write_tensors(folder / "file", state, 5);
  std::string beyond = bytes_of(folder / "file");
  const std::string digits = generation_digits(5);
  beyond.replace(beyond.find(digits), digits.size(), std::string(digits.size(), '9'));
  for (const std::string& bytes : {std::string(), std::string("not a tensor file"), beyond}) {
    write_bytes(folder / "file", bytes);
    expect_throws<DataError>([&] { write_tensors(folder / "file", state, 6); },
                             "must be a tensor file, or removed; got another");
    EXPECT_EQ(bytes_of(folder / "file"), bytes);
  }
  std::filesystem::remove(folder / "file");
  write_tensors(folder / "file", state, 6);
  EXPECT_EQ(tensor_file_facts(folder / "file")->generation, 6);
}

}  // namespace
}  // namespace ringrad::nn
