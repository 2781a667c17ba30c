// Errors: what a caller did wrong, in one sentence, with the caller's own source line.
//
// A caller's mistake throws a type derived from Error. A mistake of the library trips
// RINGRAD_ASSERT, which throws InternalError, so that no input can abort the process. A message
// reads
//
//     operation: what must hold; got fact and fact  [model.cc:41]
//
// Functions that can refuse their arguments take a defaulted `Where`, which the compiler fills in
// at the call. It is one pointer, so the tape carries it at no cost.

#pragma once

#include <cstddef>
#include <source_location>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#ifndef __cpp_lib_source_location
#error "Ringrad needs std::source_location: C++20 with g++ 11, clang 16, or newer"
#endif

namespace ringrad {

/// The source line of a call.
using Where = std::source_location;

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

/// The printed parts, joined; slow, for messages only.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
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
