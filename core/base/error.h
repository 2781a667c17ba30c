// Errors: what a caller did wrong, in one sentence, with the caller's own source line.
//
// A caller's mistake throws a type derived from Error. A mistake of the library trips
// RINGRAD_ASSERT, which throws InternalError, so that no input can abort the process. A message
// reads
//
//     operation: what must hold; got fact and fact  [model.cc:41]
//
// Functions that can refuse their arguments take a defaulted `Where`, which the compiler fills in
// at the call.

#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ringrad {

/// The source line of a call, as a defaulted argument: `Where where = Where::current()`. Unlike
/// std::source_location it does not name the function: such names would be a tenth of a program.
class Where {
 public:
  Where() : Where("", 0) {}
  static Where current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return Where(file, line);
  }

  const char* file_name() const { return reinterpret_cast<const char*>(place_ & kFile); }
  unsigned line() const { return static_cast<unsigned>(place_ >> kFileBits); }

 private:
  // One word, since every tensor and node has one: the file's name lies below 2^47 on x86-64 and
  // below 2^48 on AArch64, and a line above 65535 counts as that one.
  static constexpr int kFileBits = 48;
  static constexpr std::uint64_t kFile = (std::uint64_t{1} << kFileBits) - 1;

  Where(const char* file, unsigned line)
      : place_(reinterpret_cast<std::uintptr_t>(file) | std::uint64_t{line < 0xffff ? line : 0xffff}
                                                            << kFileBits) {}

  std::uint64_t place_;
};

/// Base of everything this library throws. `what()` is the message followed by "  [file:line]".
class Error : public std::runtime_error {
 public:
  Error(const std::string& message, Where where);

  /// Appends "; <context>" to the message, for code that catches an error by reference and knows
  /// more about its place: `error.add_context("in layer 2"); throw;`.
  void add_context(std::string_view context);

  /// what() without the source line.
  std::string_view message() const { return {what(), message_size_}; }
  /// The user's line that made the failing call.
  const Where& where() const { return where_; }

 private:
  std::size_t message_size_;
  Where where_;
};

/// Shapes, axes, or element counts that do not fit the operation.
struct ShapeError : Error {
  using Error::Error;
};
/// A dtype the operation does not take, or two that must agree and do not.
struct DTypeError : Error {
  using Error::Error;
};
/// Tensors on different devices, or a device that does not exist.
struct DeviceError : Error {
  using Error::Error;
};
/// An index outside the axis it selects from.
struct IndexError : Error {
  using Error::Error;
};
/// An argument outside its domain: a negative probability, an unknown name.
struct ValueError : Error {
  using Error::Error;
};
/// Misuse of the tape: backward twice, a saved tensor changed in place.
struct AutogradError : Error {
  using Error::Error;
};
/// A file that is missing, truncated, or not what it claims to be.
struct DataError : Error {
  using Error::Error;
};
/// Not enough memory; the message says what holds the rest.
struct OutOfMemoryError : Error {
  using Error::Error;
};
/// A CUDA call or a kernel that failed; the message says which and, on simulated devices, why.
struct CudaError : Error {
  using Error::Error;
};
/// A collective that could not complete: a peer failed, came late, or called something else.
struct CollectiveError : Error {
  using Error::Error;
};
/// A defect of this library.
struct InternalError : Error {
  using Error::Error;
};

/// "file.cc:41", without directories.
std::string to_string(const Where& where);

namespace detail {

// A part of a message, and how to print it. So each call of concat() is a list, not a function.
struct MessagePart {
  const void* value;
  void (*print)(std::ostream& out, const void* value);
};

template <class T>
MessagePart message_part(const T& value) {
  return {&value, [](std::ostream& out, const void* part) { out << *static_cast<const T*>(part); }};
}
template <std::size_t size>
MessagePart message_part(const char (&text)[size]) {
  return {text, [](std::ostream& out, const void* part) { out << static_cast<const char*>(part); }};
}

std::string concat(std::initializer_list<MessagePart> parts);

}  // namespace detail

/// The printed parts, joined; slow, for messages only.
template <class... Parts>
std::string concat(const Parts&... parts) {
  return detail::concat({detail::message_part(parts)...});
}

}  // namespace ringrad

// A macro because the message's parts must not be evaluated while the check holds.
#define RINGRAD_CHECK(condition, ErrorType, where, ...)       \
  do {                                                        \
    if (!(condition)) [[unlikely]]                            \
      throw ErrorType(::ringrad::concat(__VA_ARGS__), where); \
  } while (false)

// For conditions that only a bug of this library can break.
#define RINGRAD_ASSERT(condition)                                        \
  do {                                                                   \
    if (!(condition)) [[unlikely]]                                       \
      throw ::ringrad::InternalError("internal: must hold: " #condition, \
                                     ::ringrad::Where::current());       \
  } while (false)
