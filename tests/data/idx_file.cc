#include "ringrad/tests/data/idx_file.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

namespace ringrad::testing {

Bytes idx_file(std::uint8_t type, const std::vector<std::uint32_t>& extents,
               const Bytes& elements) {
  Bytes file = {0, 0, type, static_cast<std::uint8_t>(extents.size())};
  for (const std::uint32_t extent : extents)
    for (int shift = 24; shift >= 0; shift -= 8)
      file.push_back(static_cast<std::uint8_t>(extent >> shift));
  return concatenation(std::move(file), elements);
}

Bytes gzip(const Bytes& bytes) {
  z_stream stream{};
  EXPECT_EQ(
      deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY),
      Z_OK);
  Bytes out(deflateBound(&stream, bytes.size()));
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::filesystem::path test_folder() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const auto folder = std::filesystem::path(::testing::TempDir()) /
                      (std::string(test->test_suite_name()) + '.' + test->name());
  std::filesystem::create_directories(folder);
  return folder;
}

void write_file(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(out.good()) << path;
}

std::filesystem::path file_with(const Bytes& bytes, const std::string& name) {
  const auto path = test_folder() / name;
  write_file(path, bytes);
  return path;
}

Bytes concatenation(Bytes first, const Bytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace ringrad::testing
