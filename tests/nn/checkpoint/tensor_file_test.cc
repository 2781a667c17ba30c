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

#include "ringrad/nn/checkpoint/generation.h"
#include "ringrad/tests/core/file/file_rules.h"
#include "ringrad/tests/nn/checkpoint/folder.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using ringrad::testing::bytes_of;
using ringrad::testing::expect_same_bits;
using ringrad::testing::expect_throws;
using ringrad::testing::Folder;
using ringrad::testing::Random;
using ringrad::testing::write_bytes;

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

TEST(TensorFileTest, FilesAreWrittenAsAllFiles) {
  ringrad::testing::expect_file_rules(
      [](const auto& path) { write_tensors(path, some_tensors()); });
  // An existing file that is no tensor file may be of a later run: it is not replaced.
  ringrad::testing::expect_file_rules([](const auto& path) {
    if (std::filesystem::is_regular_file(path)) write_tensors(path, {});
    write_tensors(path, some_tensors(), 7);
  });
}

TEST(TensorFileTest, ATruncationNamesTheTensorThatIsCut) {
  const Folder folder;
  write_tensors(folder / "whole",
                {{"first", zeros({3}, {.dtype = DType::float64})}, {"weight", zeros({2, 2})}});
  const std::string whole = bytes_of(folder / "whole");
  write_bytes(folder / "cut", whole.substr(0, whole.size() - 5));
  expect_throws<DataError>([&] { read_tensors(folder / "cut"); }, "its checksum must match; got ");
  for (const char* fact : {"; \"weight\": ", "F32", "[2,2]"})
    expect_throws<DataError>([&] { read_tensors(folder / "cut"); }, fact);
  expect_throws<DataError>([&] { read_tensors(folder / "cut"); },
                           "which is cut off: the file holds 35 of the 40 bytes up to its end");
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
  expect_throws<DataError>(
      [&] { read_tensors(folder / "text"); },
      "must begin with its length and checksum; got a file of 100 bytes that does not; "
      "read_safetensors opens files of other programs");
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
        write_tensors(folder / "file", {{"x", tensor({1.})}, {"y", Tensor()}});
      },
      "got an undefined \"y\"");
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
