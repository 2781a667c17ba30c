// Rethrows an exception that another thread has thrown.

#pragma once

#include <exception>
#include <string>

#include "ringrad/core/base/error.h"

namespace ringrad {

/// Throws the error again with "<who>: " before its message. An Error keeps its source line and its
/// type. If its type is derived from one of error.h, as a user's own may be, the type of error.h is
/// thrown, with the original nested in it. Another std::exception becomes an Error, at `where`,
/// with the original nested in it; anything else stays as it is. std::rethrow_if_nested throws the
/// original.
[[noreturn]] void rethrow_of(const std::string& who, const std::exception_ptr& error, Where where);

}  // namespace ringrad
