#include <csetjmp>
#include <cstdio>

// After <cstdio>, whose types it needs:
#include <jpeglib.h>

// After <jpeglib.h>, whose options it needs:
#include <jerror.h>

#include "ringrad/data/image/decode.h"

namespace ringrad {
namespace {

// Encoders write about ten. Each costs a pass over all pixels, however few its bytes are.
constexpr int kMostScans = 100;

class JpegReader {
 public:
  explicit JpegReader(std::span<const std::byte> bytes) : bytes_(bytes) {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = keep_error;
    errors_.emit_message = refuse_guesses;
    progress_.progress_monitor = count_scans;
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  const char* message() const { return message_; }

  // What the header says:
  std::int64_t height() const { return info_.image_height; }
  std::int64_t width() const { return info_.image_width; }
  std::uint64_t num_blocks() const {
    std::uint64_t count = 0;
    for (int i = 0; i < info_.num_components; ++i)
      count +=
          std::uint64_t{info_.comp_info[i].width_in_blocks} * info_.comp_info[i].height_in_blocks;
    return count;
  }
  bool is_cmyk() const { return info_.out_color_space == JCS_CMYK; }
  bool is_inverted() const { return info_.saw_Adobe_marker; }
  std::int64_t channels() const {
    return is_cmyk() ? 4 : info_.out_color_space == JCS_GRAYSCALE ? 1 : 3;
  }

  bool read_header() noexcept {
    if (setjmp(place_)) return false;
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&info_, TRUE);
    const J_COLOR_SPACE stored = info_.jpeg_color_space;
    const bool has_four = stored == JCS_CMYK || stored == JCS_YCCK;
    info_.out_color_space = has_four ? JCS_CMYK : stored == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
    return true;
  }

  /// REQUIRES: row has width() * channels() bytes, and as many rows follow each other as the image
  ///           has
  bool read_rows(JSAMPROW row) noexcept {
    if (setjmp(place_)) return false;
    next_ = row;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      jpeg_read_scanlines(&info_, &next_, 1);
      next_ += info_.output_width * static_cast<unsigned>(info_.output_components);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

 private:
  static JpegReader& of(j_common_ptr info) { return *static_cast<JpegReader*>(info->client_data); }

  [[noreturn]] static void keep_error(j_common_ptr info) {
    info->err->format_message(info, of(info).message_);
    std::longjmp(of(info).place_, 1);
  }

  // The library warns where it goes on with pixels that it has to guess.
  static void refuse_guesses(j_common_ptr info, int level) {
    if (level >= 0) return;
    switch (info->err->msg_code) {
      case JWRN_ARITH_BAD_CODE:
      case JWRN_BOGUS_PROGRESSION:
      case JWRN_HIT_MARKER:
      case JWRN_HUFF_BAD_CODE:
      case JWRN_JPEG_EOF:
      case JWRN_MUST_RESYNC:
        keep_error(info);
      default:
        break;
    }
  }

  static void count_scans(j_common_ptr info) {
    if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
    std::snprintf(of(info).message_, sizeof message_, "more than %d scans", kMostScans);
    std::longjmp(of(info).place_, 1);
  }

  std::span<const std::byte> bytes_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  JSAMPROW next_ = nullptr;
  std::jmp_buf place_{};
  char message_[JMSG_LENGTH_MAX] = {};
};

// a b / 255, rounded.
constexpr unsigned scaled(unsigned a, unsigned b) {
  const unsigned product = a * b + 128;
  return (product + (product >> 8)) >> 8;
}

// Cyan, magenta and yellow take red, green and blue from what black leaves. Adobe's programs store
// all four inverted.
Tensor rgb_of_cmyk(const Tensor& cmyk, bool is_inverted, Where where) {
  const Tensor rgb = empty({cmyk.shape()[0], cmyk.shape()[1], 3},
                           {.dtype = DType::uint8, .device = Device()}, where);
  const std::uint8_t* from = cmyk.data<const std::uint8_t>();
  std::uint8_t* to = rgb.data<std::uint8_t>();
  const unsigned flip = is_inverted ? 255 : 0;
  for (std::int64_t pixel = cmyk.numel() / 4; pixel > 0; --pixel, from += 4) {
    const unsigned light = 255 - (from[3] ^ flip);
    for (int i = 0; i < 3; ++i)
      *to++ = static_cast<std::uint8_t>(light - scaled(from[i] ^ flip, light));
  }
  return rgb;
}

}  // namespace

bool begins_as_jpeg(std::span<const std::byte> bytes) {
  return bytes.size() >= 3 && bytes[0] == std::byte{0xff} && bytes[1] == std::byte{0xd8} &&
         bytes[2] == std::byte{0xff};
}

Tensor decode_jpeg(const EncodedImage& image, std::int64_t most_pixels) {
  const char* const rule = "must be an undamaged JPEG file";
  JpegReader jpeg(image.bytes);
  if (!jpeg.read_header())
    image.fail(rule, jpeg.message(), " in the header of ", image.bytes.size(), " bytes");
  image.check_size(jpeg.height(), jpeg.width(), most_pixels);
  if (jpeg.num_blocks() / 8 > image.bytes.size())
    image.fail(concat("must have a bit or more for each of ", jpeg.num_blocks(), " blocks"),
               image.bytes.size(), " bytes");
  const Tensor samples = empty({jpeg.height(), jpeg.width(), jpeg.channels()},
                               {.dtype = DType::uint8, .device = Device()}, image.where);
  if (!jpeg.read_rows(samples.data<std::uint8_t>()))
    image.fail(rule, jpeg.message(), " in ", jpeg.height(), " x ", jpeg.width(), " pixels of ",
               image.bytes.size(), " bytes");
  return jpeg.is_cmyk() ? rgb_of_cmyk(samples, jpeg.is_inverted(), image.where) : samples;
}

}  // namespace ringrad
