#include "ringrad/data/file_reader.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

namespace ringrad {
namespace {

constexpr std::size_t kInputBytes = std::size_t{1} << 16;

std::string describe_errno() { return std::generic_category().message(errno); }

}  // namespace

FileReader::FileReader(std::string operation, const std::filesystem::path& path, Where where)
    : ByteReader(std::move(operation), path.string(), where) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    fail("must be a readable file", error ? error.message() : "no such file");
  // Opening a pipe would wait for a writer.
  if (!std::filesystem::is_regular_file(status))
    fail("must be a regular file",
         std::filesystem::is_directory(status) ? "a directory" : "a special file");
  file_bytes_ = std::filesystem::file_size(path, error);
  if (error) fail("must be readable", error.message());
  file_.reset(std::fopen(path.c_str(), "rb"));
  if (!file_) fail("must be readable", describe_errno());

  std::array<std::byte, 2> magic{};
  const std::size_t count = read_file(magic);
  std::rewind(file_.get());
  compressed_ = count == 2 && magic == std::array{std::byte{0x1f}, std::byte{0x8b}};
  if (!compressed_) return;
  input_.resize(kInputBytes);
  constexpr int kGzipOnly = 16;  // zlib: added to the window bits
  if (inflateInit2(&stream_, kGzipOnly + MAX_WBITS) != Z_OK)
    throw OutOfMemoryError(concat(operation_, ": zlib needs memory to read ", name_), where_);
}

FileReader::~FileReader() {
  if (compressed_) inflateEnd(&stream_);
}

std::uint64_t FileReader::most_bytes() const {
  return compressed_ ? most_inflated(file_bytes_) : file_bytes_;
}

std::size_t FileReader::read(std::span<std::byte> out) {
  return compressed_ ? inflate_into(out) : read_file(out);
}

std::size_t FileReader::read_file(std::span<std::byte> out) {
  const std::size_t count = std::fread(out.data(), 1, out.size(), file_.get());
  if (count < out.size() && std::ferror(file_.get())) fail("must be readable", describe_errno());
  return count;
}

// Reads more compressed bytes for stream_; false at the end of the file.
bool FileReader::refill() {
  const std::size_t count = read_file(input_);
  stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
  stream_.avail_in = static_cast<uInt>(count);
  return count > 0;
}

// A gzip file is a sequence of members, each with a header, deflated bytes, and a trailer with the
// CRC-32 and the length of the inflated bytes; zlib compares both.
std::size_t FileReader::inflate_into(std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    if (stream_.avail_in == 0 && !refill()) {
      if (between_members_) break;
      fail("must be a complete gzip file", "its end after ", file_bytes_, " bytes");
    }
    if (between_members_ && *stream_.next_in == 0) {  // padding, which gzip reads too
      ++stream_.next_in;
      --stream_.avail_in;
      continue;
    }
    if (std::exchange(between_members_, false)) inflateReset(&stream_);
    const auto room = static_cast<uInt>(
        std::min<std::size_t>(out.size() - done, std::numeric_limits<uInt>::max()));
    stream_.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    stream_.avail_out = room;
    const int status = inflate(&stream_, Z_NO_FLUSH);
    done += room - stream_.avail_out;
    between_members_ = status == Z_STREAM_END;
    const bool fine = status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR;
    if (!fine)
      fail("must be a valid gzip file", stream_.msg ? stream_.msg : zError(status), " near byte ",
           std::ftell(file_.get()) - static_cast<long>(stream_.avail_in));
  }
  return done;
}

}  // namespace ringrad
