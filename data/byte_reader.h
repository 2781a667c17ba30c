// ByteReader: the bytes of a foreign file, in order. None of them is trusted.
//
// Every problem becomes a DataError that names the file. Callers must compare every number that
// they read with `most_bytes` before they trust it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "ringrad/core/base/error.h"

namespace ringrad {

/// The most bytes to which `deflated_bytes` bytes can inflate: deflate's densest code is 2 bits for
/// 258 equal bytes, 258 * 8 / 2 (zlib's technical notes).
constexpr std::uint64_t most_inflated(std::uint64_t deflated_bytes) {
  constexpr std::uint64_t kMostInflation = 1032, kAll = std::numeric_limits<std::uint64_t>::max();
  return deflated_bytes <= kAll / kMostInflation ? deflated_bytes * kMostInflation : kAll;
}

class ByteReader {
 public:
  virtual ~ByteReader() = default;
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;

  /// Fills `out` and returns its size, or less if the bytes end first. Once a read has come back
  /// short, the checksum of compressed bytes has been verified.
  ///
  /// Throws:  DataError if the bytes cannot be read, are damaged or end early
  virtual std::size_t read(std::span<std::byte> out) = 0;

  /// An upper bound on the bytes: the most to allocate for a size that a header claims.
  virtual std::uint64_t most_bytes() const = 0;

  /// Throws DataError "<operation>: <name> <rule>; got <facts>".
  template <class... Facts>
  [[noreturn]] void fail(const std::string& rule, const Facts&... facts) const {
    throw DataError(concat(operation_, ": ", name_, ' ', rule, "; got ", facts...), where_);
  }

 protected:
  ByteReader(std::string operation, std::string name, Where where)
      : operation_(std::move(operation)), name_(std::move(name)), where_(where) {}

  const std::string operation_, name_;
  const Where where_;
};

}  // namespace ringrad
