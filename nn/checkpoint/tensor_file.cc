#include "ringrad/nn/checkpoint/tensor_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "ringrad/core/file/atomic_file.h"
#include "ringrad/core/transfer.h"
#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/nn/checkpoint/generation.h"
#include "ringrad/nn/checkpoint/tensor_file_format.h"

namespace ringrad::nn {
namespace {

using namespace tensor_file;

constexpr std::uint64_t kAlignment = 8;  // of the first tensor

// Indexed by DType.
constexpr std::array<std::string_view, kNumDTypes> kDTypeNames = {"F32", "F64", "F16", "BF16",
                                                                  "I32", "I64", "U8",  "BOOL"};

template <class T>
std::span<const std::byte> bytes_of(const T& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Elements of wide dtypes first, so that all are aligned.
std::vector<std::pair<std::string, Tensor>> in_file_order(const StateDict& tensors, Where where) {
  for (const auto& [name, tensor] : tensors)
    RINGRAD_CHECK(tensor.defined(), ValueError, where,
                  "save: tensors must be defined; got an undefined ", quoted_bytes(name));
  std::vector<std::pair<std::string, Tensor>> ordered(tensors.begin(), tensors.end());
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return size_bytes(a.second.dtype()) > size_bytes(b.second.dtype());
  });
  return ordered;
}

std::uint64_t num_bytes(const Tensor& x) {
  return static_cast<std::uint64_t>(x.numel()) * size_bytes(x.dtype());
}

std::string make_header(const std::vector<std::pair<std::string, Tensor>>& tensors,
                        std::int64_t generation, Where where) {
  nlohmann::ordered_json header{{"__metadata__", {{"crc32", kNoDigits}}}};
  if (generation > 0) header["__metadata__"]["generation"] = generation_digits(generation);
  std::uint64_t end = 0;
  for (const auto& [name, tensor] : tensors) {
    RINGRAD_CHECK(name != "__metadata__", ValueError, where,
                  "save: the name __metadata__ belongs to the format; got a tensor of this name");
    const std::uint64_t begin = std::exchange(end, end + num_bytes(tensor));
    header[name] = {
        {"dtype", kDTypeNames[static_cast<std::size_t>(tensor.dtype())]},
        {"shape", std::vector<std::int64_t>(tensor.shape().begin(), tensor.shape().end())},
        {"data_offsets", {begin, end}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    throw ValueError(concat("save: names must be UTF-8; got ", error.what()), where);
  }
  RINGRAD_ASSERT(text.starts_with(kFront));
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  RINGRAD_CHECK(text.size() <= kMostHeaderBytes, ValueError, where, "save: names must fit into ",
                kMostHeaderBytes, " bytes of header; got ", text.size());
  return text;
}

void write_all(AtomicFile& file, const StateDict& tensors, std::int64_t generation, Where where) {
  const auto ordered = in_file_order(tensors, where);
  const std::string header = make_header(ordered, generation, where);
  const std::array<std::uint64_t, 1> length{header.size()};
  Crc sum;
  const auto write = [&](std::span<const std::byte> bytes) {
    sum.add(bytes);
    file.write(bytes);
  };
  write(bytes_of(length));
  write(bytes_of(header));
  for (const auto& [name, tensor] : ordered) {
    const Tensor there = to_host(kernels::contiguous(tensor, where), where);
    write({there.raw_data(), num_bytes(there)});
  }
  file.overwrite(kDigitsAt, bytes_of(sum.digits()));
}

}  // namespace

std::string crc_digits(std::uint32_t crc) {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", crc);
  return text.data();
}

std::string_view dtype_name(DType dtype) { return kDTypeNames[static_cast<std::size_t>(dtype)]; }

std::optional<DType> dtype_of_name(std::string_view name) {
  const auto* const found = std::find(kDTypeNames.begin(), kDTypeNames.end(), name);
  if (found == kDTypeNames.end()) return {};
  return static_cast<DType>(found - kDTypeNames.begin());
}

std::optional<TensorFileFacts> tensor_file_facts(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  const std::uint64_t num_bytes = std::filesystem::file_size(path, error);
  std::string text(kMostFrontBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), std::ssize(text));
  if (error || text.compare(kLengthBytes, kFront.size(), kFront) != 0) return {};
  const auto generation = generation_after_front(text);
  if (!generation) return {};
  return TensorFileFacts{text.substr(kDigitsAt, kNoDigits.size()), *generation, num_bytes};
}

std::optional<std::int64_t> tensor_file::generation_after_front(std::string_view bytes) {
  if (bytes.size() < kMostFrontBytes ||
      bytes.substr(kFixedBytes, kGeneration.size()) != kGeneration)
    return 0;
  const char* const digits = bytes.data() + kFixedBytes + kGeneration.size();
  const char* const end = digits + kGenerationDigits;
  std::int64_t generation = 0;
  const bool can_be = std::from_chars(digits, end, generation).ptr == end && generation > 0 &&
                      generation <= kLastGeneration;
  return can_be ? std::optional(generation) : std::nullopt;
}

void write_tensors(const std::filesystem::path& path, const StateDict& tensors, Where where) {
  AtomicFile file(path, {}, where);
  write_all(file, tensors, 0, where);
  file.commit();
}

void write_tensors(const std::filesystem::path& path, const StateDict& tensors,
                   std::int64_t generation, Where where) {
  const auto refuse_later = [&] {
    std::error_code unknown;
    const bool is_stream = std::filesystem::is_other(std::filesystem::status(path, unknown));
    if (is_stream || !may_be_file(path)) return;
    const auto there = tensor_file_facts(path);
    RINGRAD_CHECK(there, DataError, where, "save: ", path.string(),
                  " must be a tensor file, or removed; got another, which may be of a later run");
    RINGRAD_CHECK(there->generation <= generation, DataError, where, "save: ", path.string(),
                  " must be of this run or an earlier one; got generation ", there->generation,
                  ", later than ", generation);
  };
  refuse_later();  // before anything is written
  AtomicFile file(path, {.version = generation_digits(generation)}, where);
  write_all(file, tensors, generation, where);
  file.commit(refuse_later);
}

bool may_be_file(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::status(path, unknown).type() != std::filesystem::file_type::not_found;
}

}  // namespace ringrad::nn
