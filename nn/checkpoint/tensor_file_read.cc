#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "ringrad/core/untrusted/json.h"
#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/nn/checkpoint/tensor_file.h"
#include "ringrad/nn/checkpoint/tensor_file_format.h"

namespace ringrad::nn {
namespace {

using namespace tensor_file;

using Json = nlohmann::json;

constexpr std::size_t kBlockBytes = std::size_t{1} << 16;
constexpr std::string_view kCutOff = ", which is cut off: the file holds ";
constexpr int kMostDepth = 3;  // of the header: an object of objects of lists

// The format's dtypes that the library lacks, and their bits.
constexpr std::array<std::pair<std::string_view, std::uint64_t>, 14> kOtherDTypes = {
    {{"I8", 8},
     {"I16", 16},
     {"U16", 16},
     {"U32", 32},
     {"U64", 64},
     {"C64", 64},
     {"F8_E4M3", 8},
     {"F8_E4M3FNUZ", 8},
     {"F8_E5M2", 8},
     {"F8_E5M2FNUZ", 8},
     {"F8_E8M0", 8},
     {"F6_E2M3", 6},
     {"F6_E3M2", 6},
     {"F4", 4}}};

// 0 for a dtype that the format lacks.
std::uint64_t bits_of(std::string_view name) {
  if (const auto dtype = dtype_of_name(name)) return 8 * size_bytes(*dtype);
  for (const auto& [other, bits] : kOtherDTypes)
    if (other == name) return bits;
  return 0;
}

// Which files a reader takes.
enum class Source { ours, any };

enum class Memory { own, mapped };

// A file's pages, copied when written to. Empty if the system refuses.
std::shared_ptr<std::byte> map_pages(int file, std::uint64_t bytes) {
  if (bytes == 0) return {};
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  if (pages == MAP_FAILED) return {};
  return {static_cast<std::byte*>(pages), [bytes](std::byte* begin) { munmap(begin, bytes); }};
}

struct Entry {
  std::string name, kind;  // kind: the dtype's name in the file
  std::vector<std::int64_t> extents;
  std::uint64_t begin, end;  // of its bytes, relative to the end of the header
};

// A file that is open for reading.
class OpenFile {
 public:
  /// -1, and errno, if the system refuses. O_NONBLOCK: opening a pipe would wait for a writer.
  explicit OpenFile(const std::filesystem::path& path)
      : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenFile() {
    if (number_ >= 0) close(number_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int number() const { return number_; }

 private:
  const int number_;
};

// The path is opened once, since another process may put another file there at any time.
class Reader {
 public:
  Reader(const std::filesystem::path& path, Source source, Memory memory, Where where)
      : path_(path), source_(source), where_(where), file_(path) {
    if (file_.number() < 0) fail("be a file", std::generic_category().message(errno));
    struct stat facts {};
    if (fstat(file_.number(), &facts) != 0 || !S_ISREG(facts.st_mode))
      fail("be a file", "another kind of file");
    size_ = static_cast<std::uint64_t>(facts.st_size);
    if (memory == Memory::mapped && !(pages_ = map_pages(file_.number(), size_)))
      fail("be a file whose pages can be mapped", concat("an error, or 0 of ", size_, " bytes"));
  }

  /// The file's generation; 0 if it has none.
  std::int64_t generation() {
    return generation_after_front(text(0, std::min(size_, kMostFrontBytes))).value_or(0);
  }

  StateDict read() {
    check_sum();
    StateDict result;
    for (const Entry& entry : entries()) result.emplace(entry.name, tensor(entry));
    return result;
  }

  StateDict read(const std::vector<std::string>& names) {
    check_sum();
    const std::vector<Entry> all = entries();
    StateDict result;
    for (const std::string& name : names) {
      const auto found = std::find_if(all.begin(), all.end(),
                                      [&](const Entry& entry) { return entry.name == name; });
      if (found == all.end())
        fail("hold each tensor that is asked for", concat("no ", quoted_bytes(name)));
      if (!result.contains(name)) result.emplace(name, tensor(*found));
    }
    return result;
  }

 private:
  /// `got` is the library's own text, without raw bytes of the file.
  template <class Facts>
  [[noreturn]] void fail(const char* rule, const Facts& got) const {
    throw DataError(concat("load: ", path_.string(), " must ", rule, "; got ", got), where_);
  }

  Tensor tensor(const Entry& entry) {
    const auto dtype = dtype_of_name(entry.kind);
    if (!dtype)
      fail("have a dtype of the library in each tensor that is asked for",
           concat(entry.kind, " in ", quoted_bytes(entry.name)));
    if (entry.extents.size() > kMaxDims)
      fail(concat("have at most ", kMaxDims, " axes in each tensor that is asked for").c_str(),
           concat(entry.extents.size(), " in ", quoted_bytes(entry.name)));
    const Options on_host{.dtype = *dtype, .device = Device()};
    const Shape shape(entry.extents);
    const std::uint64_t at = data_begin_ + entry.begin;  // pages begin at multiples of any dtype
    const bool is_mapped = pages_ && at % size_bytes(*dtype) == 0;
    const Tensor tensor = is_mapped ? from_memory(&pages_.get()[at], shape, on_host, pages_, where_)
                                    : empty(shape, on_host, where_);
    const std::span bytes(tensor.raw_data(), entry.end - entry.begin);
    if (!is_mapped) read(at, bytes);
    if (*dtype == DType::bool_ &&
        std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; }))
      fail("have truth values of 0 and 1", concat("others in ", quoted_bytes(entry.name)));
    return tensor;
  }

  void read(std::uint64_t offset, std::span<std::byte> out) {
    if (pages_ && offset <= size_ && out.size() <= size_ - offset) {
      std::copy_n(&pages_.get()[offset], out.size(), out.data());
      return;
    }
    for (std::size_t done = 0; done < out.size();) {
      const ssize_t count = pread(file_.number(), out.data() + done, out.size() - done,
                                  static_cast<off_t>(offset + done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("be readable to its end", std::generic_category().message(errno));
      if (count == 0)
        fail(concat("hold ", out.size(), " bytes at ", offset).c_str(), concat(done, " of them"));
      done += static_cast<std::size_t>(count);
    }
  }

  std::string text(std::uint64_t offset, std::uint64_t count) {
    std::string text(count, '\0');
    read(offset, std::as_writable_bytes(std::span(text.data(), text.size())));
    return text;
  }

  // Of our own files, all other functions may rely on this check.
  void check_sum() {
    const bool is_ours = size_ >= kFixedBytes && text(kLengthBytes, kFront.size()) == kFront;
    if (!is_ours && source_ == Source::any) return;
    if (!is_ours)
      fail("begin with its length and checksum",
           concat("a file of ", size_,
                  " bytes that does not; read_safetensors opens files of other programs"));
    const std::string expected = text(kDigitsAt, kNoDigits.size());
    Crc sum;
    std::vector<std::byte> block(kBlockBytes);
    for (std::uint64_t at = 0; at < size_; at += kBlockBytes) {
      const std::span part(block.data(), std::min<std::uint64_t>(kBlockBytes, size_ - at));
      read(at, part);
      if (at == 0) std::memcpy(&part[kDigitsAt], kNoDigits.data(), kNoDigits.size());
      sum.add(part);
    }
    if (sum.digits() != expected)
      fail("be as it was written: its checksum must match",
           concat(size_, " bytes of checksum ", sum.digits(), " for ", quoted_bytes(expected),
                  where_it_is_cut_off()));
  }

  // "; it is cut off in "weight" ..." for a file that is shorter than its header says.
  std::string where_it_is_cut_off() {
    try {
      const Json all = header();
      for (const auto& [name, value] : all.items())
        if (name != "__metadata__") entry(name, value);
    } catch (const DataError& error) {
      const std::string_view message = error.message();
      const auto at = message.find(kCutOff);
      if (at != message.npos) return concat("; ", message.substr(message.rfind("; got ", at) + 6));
    }
    return {};
  }

  Json header() {
    std::uint64_t length = 0;
    if (size_ < kLengthBytes)
      fail("begin with a header's length of 8 bytes", concat("a file of ", size_, " bytes"));
    read(0, std::as_writable_bytes(std::span(&length, 1)));
    if (length > std::min(kMostHeaderBytes, size_ - kLengthBytes))
      fail("hold its header", concat("a header of ", length, " bytes in ", size_));
    data_begin_ = kLengthBytes + length;
    try {
      return parse_untrusted_json(text(kLengthBytes, length),
                                  {.depth = kMostDepth, .bytes = kMostHeaderBytes});
    } catch (const std::invalid_argument& error) {
      throw DataError(concat("load: the header of ", path_.string(), ' ', error.what()), where_);
    }
  }

  // The entries in the order of the file, which they fill completely.
  std::vector<Entry> entries() {
    std::vector<Entry> entries;
    const Json all = header();
    if (!all.is_object()) fail("have a header that is a JSON object", "another value");
    for (const auto& [name, value] : all.items()) {
      if (name != "__metadata__")
        entries.push_back(entry(name, value));
      else if (!is_metadata(value))
        fail("have metadata that is text by name", quoted_bytes(value.dump()));
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::uint64_t end = 0;
    for (const Entry& entry : entries) {
      if (entry.begin != end)
        fail("have tensors one right behind the other",
             concat(quoted_bytes(entry.name), " at ", entry.begin, " after ", end));
      end = entry.end;
    }
    if (end != size_ - data_begin_)
      fail("end with its last tensor", concat(end, " bytes of ", size_ - data_begin_));
    return entries;
  }

  static bool is_metadata(const Json& value) {
    return value.is_null() ||
           (value.is_object() && std::all_of(value.begin(), value.end(),
                                             [](const Json& text) { return text.is_string(); }));
  }

  Entry entry(const std::string& name, const Json& value) const {
    const auto refuse = [&](const auto&... why) {
      fail("describe tensors by dtype, shape and data_offsets",
           concat(quoted_bytes(name), ": ", quoted_bytes(value.dump()), why...));
    };
    const auto are_numbers = [](const Json& list) {
      return list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& number) {
               return number.is_number_unsigned();
             });
    };
    if (!value.is_object() || (source_ == Source::ours && value.size() != 3) ||
        !value.contains("dtype") || !value.contains("shape") || !value.contains("data_offsets"))
      refuse();
    const Json &kind = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
    if (!kind.is_string() || !are_numbers(shape) || !are_numbers(offsets) || offsets.size() != 2)
      refuse();
    Entry entry{name,
                kind.get<std::string>(),
                {},
                offsets[0].get<std::uint64_t>(),
                offsets[1].get<std::uint64_t>()};
    // Bits are counted in 64 signed bits, so that bytes and strides cannot overflow either.
    auto bits = static_cast<std::int64_t>(bits_of(entry.kind));
    if (bits == 0) refuse(", whose dtype ", quoted_bytes(entry.kind), " the format lacks");
    if (source_ == Source::ours && !dtype_of_name(entry.kind))
      refuse(", whose dtype ", quoted_bytes(entry.kind), " the library lacks");
    if (source_ == Source::ours && shape.size() > kMaxDims)
      refuse(", which has more than ", kMaxDims, " axes");
    bool is_empty = false;
    for (const Json& number : shape) {
      const auto extent = number.get<std::uint64_t>();
      is_empty |= extent == 0;
      if (__builtin_mul_overflow(bits, std::max<std::uint64_t>(extent, 1), &bits))
        refuse(", whose bytes 64 bits cannot count");
      entry.extents.push_back(static_cast<std::int64_t>(extent));
    }
    if (bits % 8 != 0 && !is_empty) refuse(", which ends within a byte");
    const auto bytes = static_cast<std::uint64_t>(is_empty ? 0 : bits / 8);
    if (entry.begin > entry.end || entry.end - entry.begin != bytes)
      refuse(", whose dtype and shape take ", bytes, " bytes");
    if (entry.end > size_ - data_begin_)
      refuse(kCutOff, size_ - data_begin_, " of the ", entry.end, " bytes up to its end");
    return entry;
  }

  const std::filesystem::path path_;
  const Source source_;
  const Where where_;
  const OpenFile file_;
  std::shared_ptr<std::byte> pages_;  // of a mapped file
  std::uint64_t size_ = 0, data_begin_ = 0;
};

}  // namespace

StateDict read_tensors(const std::filesystem::path& path, Where where) {
  return Reader(path, Source::ours, Memory::own, where).read();
}

StateDict read_tensors(const std::filesystem::path& path, std::int64_t& generation, Where where) {
  Reader reader(path, Source::ours, Memory::own, where);
  StateDict tensors = reader.read();
  generation = reader.generation();
  return tensors;
}

StateDict read_safetensors(const std::filesystem::path& path, Where where) {
  return Reader(path, Source::any, Memory::own, where).read();
}

StateDict read_safetensors(const std::filesystem::path& path, const std::vector<std::string>& names,
                           Where where) {
  return Reader(path, Source::any, Memory::own, where).read(names);
}

StateDict map_safetensors(const std::filesystem::path& path, Where where) {
  return Reader(path, Source::any, Memory::mapped, where).read();
}

StateDict map_safetensors(const std::filesystem::path& path, const std::vector<std::string>& names,
                          Where where) {
  return Reader(path, Source::any, Memory::mapped, where).read(names);
}

}  // namespace ringrad::nn
