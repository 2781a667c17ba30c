#include "ringrad/data/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ringrad/core/file/atomic_file.h"
#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/core/view.h"
#include "ringrad/data/array_reader.h"
#include "ringrad/data/file_reader.h"
#include "ringrad/data/npy_array.h"

static_assert(std::endian::native == std::endian::little);

namespace ringrad {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMostHeaderBytes = 64 * 1024;  // eight axes take less than 300
constexpr std::size_t kAlignment = 64;               // of the elements, as the format asks

// NumPy's names, without the order of bytes, indexed by DType. It has none for bfloat16.
constexpr std::array<std::string_view, kNumDTypes> kNames = {"f4", "f8", "f2", "",
                                                             "i4", "i8", "u1", "b1"};

struct NpyHeader {
  DType dtype = DType::float32;
  std::endian order = std::endian::little;
  bool is_column_major = false;
  Shape shape;
};

// --- Reading ---

// Reads the header's text: a dictionary of Python literals. Functions return false, or nothing,
// where the text is something else.
class HeaderText {
 public:
  explicit HeaderText(std::string_view text) : rest_(text) {}

  /// The value of 'descr', if it is a text that names no dtype of the library.
  std::string_view unknown_type() const { return unknown_type_; }

  std::optional<NpyHeader> read() {
    NpyHeader header;
    bool has_type = false, has_order = false, has_shape = false;
    if (!take('{')) return std::nullopt;
    while (!take('}')) {
      const auto key = quoted();
      if (!key || !take(':')) return std::nullopt;
      bool* const has = *key == "descr"           ? &has_type
                        : *key == "fortran_order" ? &has_order
                        : *key == "shape"         ? &has_shape
                                                  : nullptr;
      if (!has || *has) return std::nullopt;
      *has = has == &has_type    ? type(header)
             : has == &has_order ? boolean(header.is_column_major)
                                 : shape(header.shape);
      if (!*has) return std::nullopt;
      if (!take(',') && !(skip_space(), rest_.starts_with('}'))) return std::nullopt;
    }
    skip_space();
    if (!rest_.empty() || !has_type || !has_order || !has_shape) return std::nullopt;
    return header;
  }

 private:
  void skip_space() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
  }
  bool take(char c) { return take(std::string_view(&c, 1)); }
  bool take(std::string_view word) {
    skip_space();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string_view> quoted() {
    const char quote = take('\'') ? '\'' : take('"') ? '"' : '\0';
    const std::size_t size = quote ? rest_.find(quote) : std::string_view::npos;
    if (size == std::string_view::npos) return std::nullopt;
    const std::string_view text = rest_.substr(0, size);
    rest_.remove_prefix(size + 1);
    return text;
  }
  bool type(NpyHeader& header) {
    const auto text = quoted();
    if (!text) return false;
    const auto known = std::find(kNames.begin(), kNames.end(),
                                 text->substr(std::min<std::size_t>(1, text->size())));
    if (known == kNames.end() || known->empty()) {
      unknown_type_ = *text;
      return false;
    }
    header.dtype = static_cast<DType>(known - kNames.begin());
    const char order = text->front();
    header.order = order == '>' ? std::endian::big : std::endian::little;
    return order == '<' || order == '>' || (order == '|' && size_bytes(header.dtype) == 1);
  }
  bool boolean(bool& value) {
    value = take("True");
    return value || take("False");
  }
  bool shape(Shape& shape) {
    if (!take('(')) return false;
    while (!take(')')) {
      skip_space();
      std::int64_t extent = -1;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (error != std::errc() || extent < 0 || shape.size() == kMaxDims) return false;
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      if (rest_.starts_with('L')) rest_.remove_prefix(1);  // as Python 2 wrote it
      shape.push_back(extent);
      if (!take(',') && !rest_.starts_with(')')) return false;
    }
    return true;
  }

  std::string_view rest_, unknown_type_;
};

std::string read_text(ByteReader& file, std::size_t size, const char* what) {
  std::string text(size, '\0');
  const std::size_t count = file.read(std::as_writable_bytes(std::span(text)));
  if (count < size) file.fail(concat("must hold ", size, " bytes of ", what), count);
  return text;
}

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (auto byte = bytes.rbegin(); byte != bytes.rend(); ++byte)
    value = value << 8 | static_cast<unsigned char>(*byte);
  return value;
}

NpyHeader read_npy_header(ByteReader& file) {
  const std::string front = read_text(file, kMagic.size() + 2, "magic and version");
  const int major = front[kMagic.size()], minor = front[kMagic.size() + 1];
  if (!front.starts_with(kMagic) || major < 1 || major > 3 || minor != 0)
    file.fail("must begin with 93 NUMPY and version 1.0, 2.0 or 3.0", quoted_bytes(front));
  const auto size = little_endian(read_text(file, major == 1 ? 2 : 4, "length"));
  if (size > kMostHeaderBytes)
    file.fail(concat("must have a header of at most ", kMostHeaderBytes, " bytes"), size);
  const std::string text = read_text(file, size, "header");
  HeaderText reader(text);
  const auto header = reader.read();
  if (!header && !reader.unknown_type().empty())
    file.fail("must have a header with 'descr' one of f4 f8 f2 i4 i8 u1 b1",
              quoted_bytes(reader.unknown_type()), " in ", quoted_bytes(text));
  if (!header)
    file.fail(
        "must have a header with 'descr' one of f4 f8 f2 i4 i8 u1 b1 and their order, "
        "'fortran_order' True or False, and 'shape' a tuple of at most 8 extents",
        quoted_bytes(text));
  return *header;
}

// Any byte but 0 is true for NumPy; a bool must be 0 or 1.
void normalize(const Tensor& x) {
  std::byte* const bytes = x.raw_data();
  std::transform(bytes, bytes + x.numel(), bytes,
                 [](std::byte b) { return std::byte{b != std::byte{0}}; });
}

// --- Writing ---

std::string header_of(const Tensor& x) {
  std::string text = concat("{'descr': '", size_bytes(x.dtype()) == 1 ? '|' : '<',
                            kNames[static_cast<std::size_t>(x.dtype())],
                            "', 'fortran_order': False, 'shape': ", x.shape(), ", }");
  const std::size_t before = kMagic.size() + 4;
  text.append(kAlignment - (before + text.size()) % kAlignment, ' ');
  text.back() = '\n';
  return concat(kMagic, '\1', '\0', static_cast<char>(text.size() & 0xff),
                static_cast<char>(text.size() >> 8), text);
}

void write_elements(const WriteBytes& out, const Tensor& x, Where where) {
  const auto write = [&](const auto& values) { out(std::as_bytes(std::span(values))); };
  dispatch_dtype(x.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>)
      write(x.to_vector<std::uint8_t>(where));
    else
      write(x.to_vector<T>(where));
  });
}

}  // namespace

Tensor read_npy_array(ByteReader& file, Where where) {
  const NpyHeader header = read_npy_header(file);
  Shape stored = header.shape, order = header.shape;
  if (header.is_column_major) std::reverse(stored.begin(), stored.end());
  const Tensor x = read_array(file, header.dtype, stored, header.order, where);
  if (header.dtype == DType::bool_) normalize(x);
  if (!header.is_column_major) return x;
  for (int axis = 0; axis < order.size(); ++axis) order[axis] = order.size() - 1 - axis;
  return view::permute(x, order, where);
}

void check_npy_dtype(const char* operation, const Tensor& x, Where where) {
  RINGRAD_CHECK(x.dtype(where) != DType::bfloat16, DTypeError, where, operation,
                ": the dtype must be one that NumPy has; got bfloat16");
}

void write_npy_array(const WriteBytes& out, const Tensor& x, Where where) {
  const std::string header = header_of(x);
  out(std::as_bytes(std::span(header)));
  write_elements(out, x, where);
}

Tensor read_npy(const std::filesystem::path& path, Where where) {
  FileReader file("read_npy", path, where);
  return read_npy_array(file, where);
}

void write_npy(const std::filesystem::path& path, const Tensor& x, Where where) {
  check_npy_dtype("write_npy", x, where);
  AtomicFile file(path, {.operation = "write_npy", .has_many_writers = true}, where);
  write_npy_array([&](std::span<const std::byte> bytes) { file.write(bytes); }, x, where);
  file.commit();
}

}  // namespace ringrad
