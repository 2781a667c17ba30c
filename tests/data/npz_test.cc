// The files in npz/ are NumPy 2.4.6's: savez(x, labels, flag) and savez_compressed(zeros, column).

#include "ringrad/data/npz.h"

#include <gtest/gtest.h>
#include <zip.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "ringrad/core/view.h"
#include "ringrad/data/npy_array.h"
#include "ringrad/tests/core/file/file_rules.h"
#include "ringrad/tests/data/idx_file.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::Bytes;
using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::test_folder;

const std::filesystem::path kStored = "tests/data/npz/stored.npz";
const std::filesystem::path kDeflated = "tests/data/npz/deflated.npz";

Bytes content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

std::string npy_of(const Tensor& x) {
  std::string text;
  write_npy_array(
      [&](std::span<const std::byte> bytes) {
        text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      },
      x, Where::current());
  return text;
}

struct Member {
  std::string name, content;
  int compression = ZIP_CM_STORE;
  bool is_encrypted = false;
};

// An archive that libzip makes; nothing but names and contents is ours.
std::filesystem::path archive_of(const std::vector<Member>& members) {
  const auto path = test_folder() / "made.npz";
  zip_t* const archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  for (const Member& member : members) {
    zip_source_t* const source =
        zip_source_buffer(archive, member.content.data(), member.content.size(), 0);
    const auto at = static_cast<std::uint64_t>(
        zip_file_add(archive, member.name.c_str(), source, ZIP_FL_ENC_UTF_8));
    EXPECT_EQ(zip_set_file_compression(archive, at, member.compression, 0), 0);
    if (member.is_encrypted) {
      EXPECT_EQ(zip_file_set_encryption(archive, at, ZIP_EM_AES_256, "secret"), 0);
    }
  }
  EXPECT_EQ(zip_close(archive), 0);
  return path;
}

// The archive's bytes with each `from` replaced by a text of the same length.
std::filesystem::path renamed(const std::filesystem::path& path, const std::string& from,
                              const std::string& to) {
  const Bytes bytes = content_of(path);
  std::string text(bytes.begin(), bytes.end());
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return testing::file_with(Bytes(text.begin(), text.end()), "renamed.npz");
}

TEST(NpzTest, ReadsWhatNumPyWrote) {
  const auto stored = read_npz(kStored);
  ASSERT_EQ(stored.size(), 3u);
  EXPECT_EQ(stored.at("x").shape(), Shape({2, 3}));
  expect_close(stored.at("x"), {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(stored.at("labels").to_vector<std::int64_t>(), std::vector<std::int64_t>({3, -1}));
  EXPECT_EQ(stored.at("flag").dtype(), DType::bool_);
  EXPECT_TRUE(stored.at("flag").item<bool>());

  const auto deflated = read_npz(kDeflated);
  ASSERT_EQ(deflated.size(), 2u);
  expect_same_bits(deflated.at("zeros"), zeros({100, 100}, {.dtype = DType::float64}));
  expect_close(deflated.at("column"), {0, 1, 2, 3, 4, 5});  // its elements lie by columns
}

TEST(NpzTest, ReadsTheRequestedNames) {
  const auto read = read_npz(kStored, {"x", "x", "flag"});
  EXPECT_EQ(read.size(), 2u);
  EXPECT_TRUE(read.contains("x") && read.contains("flag"));
  EXPECT_TRUE(read_npz(kStored, std::vector<std::string>()).empty());
  expect_throws<DataError>(
      [&] {
        read_npz(kStored, {"x", "y\x1b"});
      },
      R"(must have an array "y\x1b"; got those called "flag", "labels", "x")");

  // What is not asked for need not be readable.
  const auto path = archive_of({{"good.npy", npy_of(ones({2}))}, {"bad.npy", "no array"}});
  expect_close(read_npz(path, {"good"}).at("good"), {1, 1});
  expect_throws<DataError>([&] { read_npz(path); }, R"(array "bad" must)");
}

TEST(NpzTest, ComesBackAsItWasWritten) {
  testing::Random random(1);
  for (const bool deflates : {false, true}) {
    std::map<std::string, Tensor> tensors;
    for (int i = 0; i < kNumDTypes; ++i) {
      const auto dtype = static_cast<DType>(i);
      if (dtype == DType::bfloat16) continue;
      tensors[concat(dtype)] = view::permute(random.tensor({2, 3, 4}, dtype), {2, 0, 1});
    }
    tensors["layers/0.weight ä"] = zeros({0, 3});
    tensors["scalar"] = full({}, 2.5);
    const auto path = test_folder() / "x.npz";
    write_npz(path, tensors, deflates);
    const auto read = read_npz(path);
    ASSERT_EQ(read.size(), tensors.size());
    for (const auto& [name, x] : tensors) expect_same_bits(read.at(name), x);
  }
}

TEST(NpzTest, EqualTensorsGiveEqualBytes) {
  const auto path = test_folder() / "x.npz", again = test_folder() / "again.npz";
  const std::map<std::string, Tensor> tensors = {{"x", ones({100})}, {"y", arange(5)}};
  write_npz(path, tensors, true);
  write_npz(again, {{"only", zeros({3})}});
  write_npz(again, tensors, true);  // replaces all that it held
  EXPECT_EQ(content_of(again), content_of(path));
  write_npz(again, tensors);
  EXPECT_GT(content_of(again).size(), content_of(path).size());
}

TEST(NpzTest, FilesAreWrittenAsAllFiles) {
  testing::expect_file_rules([](const auto& path) { write_npz(path, {{"x", ones({3, 2})}}); });
  testing::expect_file_rules([](const auto& path) { write_npz(path, {}); });
}

// Python's zipfile writes the same 22 bytes.
TEST(NpzTest, AnArchiveOfNothingReplacesTheFile) {
  const auto path = test_folder() / "x.npz";
  write_npz(path, {{"x", ones({3})}});
  write_npz(path, {});
  Bytes end(22, 0);
  const std::string signature = "PK\5\6";
  std::copy(signature.begin(), signature.end(), end.begin());
  EXPECT_EQ(content_of(path), end);
  EXPECT_TRUE(read_npz(path).empty());
}

TEST(NpzTest, ADamagedByteIsSeenOrChangesNoNumber) {
  for (const auto& original : {kStored, kDeflated}) {
    const auto expected = read_npz(original);
    const Bytes bytes = content_of(original);
    int refused = 0;
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      Bytes damaged = bytes;
      damaged[at] ^= 0x55;
      try {
        for (const auto& [name, x] : read_npz(testing::file_with(damaged)))
          if (expected.contains(name)) expect_same_bits(x, expected.at(name));
      } catch (const DataError&) {
        ++refused;
      }
    }
    EXPECT_GT(refused, static_cast<int>(bytes.size() / 2));
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{3}, bytes.size() / 2, bytes.size() - 1})
      expect_throws<DataError>(
          [&] {
            read_npz(testing::file_with(
                Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size))));
          },
          "must be a zip archive");
  }
}

TEST(NpzTest, RefusesMembersThatAreNotPlainArrays) {
  const std::string array = npy_of(ones({2}));
  const auto refused = [](const std::filesystem::path& path, const char* text) {
    expect_throws<DataError>([&] { read_npz(path); }, text);
  };
  refused(archive_of({{"x.npy", array, ZIP_CM_BZIP2}}),
          "must be stored or deflated; got method 12");
  refused(archive_of({{"x.npy", array, ZIP_CM_STORE, true}}), "must not be encrypted");
  refused(archive_of({{"x.npy", array.substr(0, array.size() - 1)}}), "promises 8 bytes");
  refused(archive_of({{"x.npy", array + "!"}}), "must end after 8 bytes");
  refused(renamed(archive_of({{"aa.npy", array}, {"ab.npy", array}}), "ab.npy", "aa.npy"),
          "one member of each name; got File already exists");
  EXPECT_TRUE(read_npz(archive_of({{"notes.txt", "not an array"}, {"npy", ""}})).empty());
}

TEST(NpzTest, AllocatesNoMoreThanAMemberCanHold) {
  std::string huge = npy_of(ones({2}));
  huge.replace(huge.find("(2,), }               "), 22, "(99000000000000000,), }");
  for (const int compression : {ZIP_CM_STORE, ZIP_CM_DEFLATE})
    expect_throws<DataError>(
        [&] {
          read_npz(archive_of({{"x.npy", huge, compression}}));
        },
        "must be long enough");
}

TEST(NpzTest, RefusesWhatCannotBeReadOrWritten) {
  const auto folder = test_folder();
  expect_throws<DataError>([&] { read_npz(folder / "none.npz"); }, "No such file");
  expect_throws<DataError>([&] { read_npz(folder); }, "must be a regular file");
  expect_throws<DataError>([&] { read_npz("/dev/null"); }, "must be a regular file");
  expect_throws<DTypeError>(
      [&] {
        write_npz(folder / "x", {{"x", ones({1}, {.dtype = DType::bfloat16})}});
      },
      "write_npz: the dtype must be one that NumPy has; got bfloat16");
  expect_throws<ValueError>([&] { write_npz(folder / "x", {{"", ones({1})}}); }, "a name must");
  expect_throws<ValueError>(
      [&] {
        write_npz(folder / "x", {{std::string("a\0b", 3), ones({1})}});
      },
      "a name must");
  expect_throws<ValueError>([&] { write_npz(folder / "x", {{"y", Tensor()}}); }, "undefined \"y\"");
  EXPECT_FALSE(std::filesystem::exists(folder / "x"));
  expect_throws<DataError>(
      [&] {
        write_npz(folder / "none" / "x", {{"x", ones({1})}});
      },
      "No such file");
}

}  // namespace
}  // namespace ringrad
