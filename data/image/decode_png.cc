#include <png.h>

#include <csetjmp>
#include <cstring>
#include <vector>

#include "ringrad/data/byte_reader.h"
#include "ringrad/data/image/decode.h"

namespace ringrad {
namespace {

class PngReader {
 public:
  explicit PngReader(std::span<const std::byte> bytes) : rest_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, keep_error, ignore_warning);
    if (png_) info_ = png_create_info_struct(png_);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  bool is_made() const { return info_ != nullptr; }
  const char* message() const { return message_; }

  // What the header says:
  std::int64_t height() const { return png_get_image_height(png_, info_); }
  std::int64_t width() const { return png_get_image_width(png_, info_); }
  std::int64_t channels() const { return png_get_channels(png_, info_); }
  /// A lower bound on the inflated bytes: each row has a filter besides its samples.
  std::uint64_t stored_bytes() const {
    return (stored_row_bytes_ + 1) * static_cast<std::uint64_t>(height());
  }

  bool read_header() noexcept {
    if (setjmp(png_jmpbuf(png_))) return false;
    png_set_read_fn(png_, this, take);
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // pixels alone
    png_read_info(png_, info_);
    stored_row_bytes_ = png_get_rowbytes(png_, info_);
    const int color = png_get_color_type(png_, info_);
    if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (color == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
    if (png_get_valid(png_, info_, PNG_INFO_tRNS)) png_set_tRNS_to_alpha(png_);
    png_set_strip_16(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }

  bool read_rows(png_bytep* rows) noexcept {
    if (setjmp(png_jmpbuf(png_))) return false;
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);  // also the checksum of the last samples
    return true;
  }

 private:
  static void take(png_structp png, png_bytep out, std::size_t count) {
    auto& rest = static_cast<PngReader*>(png_get_io_ptr(png))->rest_;
    if (count > rest.size()) png_error(png, "its end");
    std::memcpy(out, rest.data(), count);
    rest = rest.subspan(count);
  }

  [[noreturn]] static void keep_error(png_structp png, png_const_charp message) {
    auto& kept = static_cast<PngReader*>(png_get_error_ptr(png))->message_;
    std::strncpy(kept, message, sizeof kept - 1);
    png_longjmp(png, 1);
  }
  static void ignore_warning(png_structp, png_const_charp) {}

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::span<const std::byte> rest_;
  std::size_t stored_row_bytes_ = 0;
  char message_[128] = {};
};

}  // namespace

bool begins_as_png(std::span<const std::byte> bytes) {
  constexpr std::size_t kSize = 8;
  return bytes.size() >= kSize &&
         png_sig_cmp(reinterpret_cast<png_const_bytep>(bytes.data()), 0, kSize) == 0;
}

Tensor decode_png(const EncodedImage& image, std::int64_t most_pixels) {
  const char* const rule = "must be an undamaged PNG file";
  PngReader png(image.bytes);
  if (!png.is_made())
    throw OutOfMemoryError(concat(image.operation, ": libpng needs memory"), image.where);
  if (!png.read_header())
    image.fail(rule, png.message(), " in the header of ", image.bytes.size(), " bytes");
  image.check_size(png.height(), png.width(), most_pixels);
  if (png.stored_bytes() > most_inflated(image.bytes.size()))
    image.fail(concat("must be long enough for ", png.height(), " x ", png.width(), " pixels"),
               image.bytes.size(), " bytes");
  const Tensor samples = empty({png.height(), png.width(), png.channels()},
                               {.dtype = DType::uint8, .device = Device()}, image.where);
  std::vector<png_bytep> rows(static_cast<std::size_t>(png.height()));
  for (std::size_t y = 0; y < rows.size(); ++y)
    rows[y] = samples.data<std::uint8_t>() + static_cast<std::int64_t>(y) * samples.strides()[0];
  if (!png.read_rows(rows.data()))
    image.fail(rule, png.message(), " in ", png.height(), " x ", png.width(), " pixels of ",
               image.bytes.size(), " bytes");
  return samples;
}

}  // namespace ringrad
