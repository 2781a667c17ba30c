#include "ringrad/data/idx.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "ringrad/core/base/allocator.h"
#include "ringrad/tests/data/idx_file.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::Bytes;
using testing::concatenation;
using testing::expect_close;
using testing::expect_throws;
using testing::file_with;
using testing::gzip;
using testing::idx_file;

// (2, 3) of uint8: the numbers 1 to 6.
Bytes small_file() { return idx_file(0x08, {2, 3}, {1, 2, 3, 4, 5, 6}); }

Bytes without_end(Bytes bytes, std::size_t count) {
  bytes.resize(bytes.size() - count);
  return bytes;
}

TEST(IdxTest, ReadsBytesInRowMajorOrder) {
  const Tensor x = read_idx(file_with(small_file()));
  EXPECT_EQ(x.dtype(), DType::uint8);
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
  expect_close(x, {1, 2, 3, 4, 5, 6});
}

TEST(IdxTest, ReadsBigEndianNumbers) {
  const Tensor integers =
      read_idx(file_with(idx_file(0x0c, {2}, {0x01, 0x02, 0x03, 0x04, 0xff, 0xff, 0xff, 0xfe})));
  EXPECT_EQ(integers.dtype(), DType::int32);
  expect_close(integers, {0x01020304, -2});

  const Tensor floats = read_idx(file_with(idx_file(0x0d, {1}, {0x3f, 0xa0, 0, 0})));
  EXPECT_EQ(floats.dtype(), DType::float32);
  expect_close(floats, {1.25});

  const Tensor doubles = read_idx(file_with(idx_file(0x0e, {1}, {0xbf, 0xf4, 0, 0, 0, 0, 0, 0})));
  EXPECT_EQ(doubles.dtype(), DType::float64);
  expect_close(doubles, {-1.25});
}

TEST(IdxTest, AnUnknownTypeIsNamed) {
  expect_throws<DataError>(
      [] {
        read_idx(file_with(idx_file(0x09, {2}, {1, 2})));
      },
      "must have elements of a type out of 08 0c 0d 0e; got 09, int8");
  expect_throws<DataError>(
      [] {
        read_idx(file_with(idx_file(0x0b, {1}, {1, 2})));
      },
      "got 0b, int16");
}

TEST(IdxTest, ReadsGzipLikeThePlainFile) {
  expect_close(read_idx(file_with(gzip(small_file()))), {1, 2, 3, 4, 5, 6});
}

// Long enough for several buffers of compressed input: the bytes hardly compress.
TEST(IdxTest, ReadsGzipLongerThanItsBuffers) {
  constexpr std::uint32_t kCount = 300'000;
  Bytes elements(kCount);
  std::uint32_t state = 1;
  for (auto& element : elements)
    element = static_cast<std::uint8_t>((state = state * 1664525u + 1013904223u) >> 24);
  const Tensor x = read_idx(file_with(gzip(idx_file(0x08, {kCount}, elements))));
  EXPECT_EQ(x.to_vector<std::uint8_t>(), elements);
}

TEST(IdxTest, ReadsConcatenatedGzipMembersAsOneFile) {
  const Bytes file = small_file();
  for (std::size_t cut = 0; cut <= file.size(); ++cut) {
    const auto at = file.begin() + static_cast<std::ptrdiff_t>(cut);
    const Bytes members = concatenation(gzip({file.begin(), at}), gzip({at, file.end()}));
    expect_close(read_idx(file_with(members)), {1, 2, 3, 4, 5, 6});
  }
}

TEST(IdxTest, ReadsAnEmptyAxis) {
  const Bytes file = idx_file(0x08, {0, 28, 28}, {});
  EXPECT_EQ(read_idx(file_with(file)).shape(), (Shape{0, 28, 28}));
  EXPECT_EQ(read_idx(file_with(gzip(file))).shape(), (Shape{0, 28, 28}));
}

TEST(IdxTest, ThrowsForWhatIsNotAFile) {
  const auto folder = testing::test_folder();
  expect_throws<DataError>([&] { read_idx(folder / "absent"); },
                           "absent must be a readable file; got ");
  expect_throws<DataError>([&] { read_idx(folder); }, "must be a regular file; got a directory");
  const auto pipe = folder / "pipe";
  std::filesystem::remove(pipe);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_throws<DataError>([&] { read_idx(pipe); }, "must be a regular file; got a special file");
}

TEST(IdxTest, ThrowsForAWrongMagic) {
  const auto with_magic = [](const Bytes& magic) {
    return file_with(concatenation(magic, {0, 0, 0, 1, 7}));
  };
  expect_throws<DataError>([&] { read_idx(with_magic({0, 1, 8, 1})); }, "got 00 01 08 01");
  expect_throws<DataError>([&] { read_idx(with_magic({'P', 'K', 3, 4})); }, "got 50 4b 03 04");
  expect_throws<DataError>(
      [&] {
        read_idx(with_magic({0, 0, 0x0b, 1}));
      },
      "a type out of 08 0c 0d 0e");  // int16, which no tensor holds
  expect_throws<DataError>([&] { read_idx(with_magic({0, 0, 8, 0})); }, "1 to 8 axes");
  expect_throws<DataError>([&] { read_idx(with_magic({0, 0, 8, 9})); }, "1 to 8 axes");
}

TEST(IdxTest, ThrowsForAFileCutAtAnyByte) {
  const Bytes file = small_file(), compressed = gzip(file);
  for (std::size_t cut = 1; cut <= file.size(); ++cut)
    expect_throws<DataError>([&] { read_idx(file_with(without_end(file, cut))); }, "; got ");
  for (std::size_t cut = 1; cut <= compressed.size(); ++cut)
    expect_throws<DataError>([&] { read_idx(file_with(without_end(compressed, cut))); }, "; got ");
}

TEST(IdxTest, NamesBothFactsOfATruncatedFile) {
  expect_throws<DataError>([&] { read_idx(file_with(without_end(small_file(), 12))); },
                           "must hold 4 more bytes of header; got 2");
  expect_throws<DataError>([&] { read_idx(file_with(without_end(small_file(), 2))); },
                           "promises 6 bytes of uint8 (2, 3); got 4");
  // A valid gzip file of a truncated IDX file.
  expect_throws<DataError>([&] { read_idx(file_with(gzip(without_end(small_file(), 2)))); },
                           "promises 6 bytes of uint8 (2, 3); got 4");
  const Bytes compressed = gzip(small_file());
  expect_throws<DataError>(
      [&] { read_idx(file_with(without_end(compressed, 1))); },
      concat("must be a complete gzip file; got its end after ", compressed.size() - 1, " bytes"));
}

TEST(IdxTest, ThrowsForTrailingBytes) {
  expect_throws<DataError>([&] { read_idx(file_with(concatenation(small_file(), {0}))); },
                           "must end after 6 bytes of uint8 (2, 3); got more bytes");
  expect_throws<DataError>([&] { read_idx(file_with(gzip(concatenation(small_file(), {0})))); },
                           "must end after 6 bytes of uint8 (2, 3); got more bytes");
  expect_throws<DataError>(
      [&] {
        read_idx(file_with(concatenation(gzip(small_file()), {0, 1, 0})));
      },
      "gzip file; got ");
  const Tensor padded = read_idx(file_with(concatenation(gzip(small_file()), Bytes(1000, 0))));
  expect_close(padded, {1, 2, 3, 4, 5, 6});
}

// Some bytes of a gzip header, such as its time, mean nothing to a reader; the format or the
// checksum covers all others.
TEST(IdxTest, NeverTakesADamagedGzipFileForAnother) {
  const Bytes sound = gzip(small_file());
  int found = 0;
  for (std::size_t at = 0; at < sound.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      Bytes damaged = sound;
      damaged[at] = static_cast<std::uint8_t>(damaged[at] ^ (1 << bit));
      try {
        expect_close(read_idx(file_with(damaged)), {1, 2, 3, 4, 5, 6});
      } catch (const DataError&) {
        ++found;
      }
    }
  EXPECT_GE(found, static_cast<int>(8 * (sound.size() - 7)));
}

TEST(IdxTest, ComparesTheChecksum) {
  Bytes damaged = gzip(small_file());
  damaged[damaged.size() - 5] ^= 1;  // the last byte of the CRC-32, before the length
  expect_throws<DataError>([&] { read_idx(file_with(damaged)); },
                           "must be a valid gzip file; got incorrect data check");
}

// The reader compares the size that a header promises with the size of the file before it allocates
// memory.
TEST(IdxTest, AllocatesNothingForAbsurdExtents) {
  constexpr std::uint32_t kMost = 0xffffffff;
  const std::vector<std::vector<std::uint32_t>> absurd = {
      {kMost}, {kMost, 28, 28}, {kMost, kMost, kMost, kMost}, {0, kMost, kMost, kMost}};
  for (const auto& extents : absurd) {
    const Bytes file = idx_file(0x0e, extents, {1, 2, 3, 4, 5, 6, 7, 8});
    for (const auto& path : {file_with(file, "plain"), file_with(gzip(file), "compressed")}) {
      reset_peak_stats();
      const auto before = allocator_stats().peak_allocated_bytes;
      expect_throws<DataError>([&] { read_idx(path); },
                               "must be long enough for it; got a file of");
      EXPECT_EQ(allocator_stats().peak_allocated_bytes, before);
    }
  }
}

// The bound on the content of a gzip file must not refuse the densest possible file.
TEST(IdxTest, ReadsTheDensestGzipFile) {
  constexpr std::uint32_t kCount = 10'000'000;
  const Bytes file = gzip(idx_file(0x08, {kCount}, Bytes(kCount)));
  EXPECT_GT(kCount / file.size(), 1000u);
  EXPECT_EQ(read_idx(file_with(file)).shape(), Shape{kCount});
}

}  // namespace
}  // namespace ringrad
