// What threads do with each other's exceptions.

#pragma once

#include <exception>
#include <string>

#include "ringrad/core/error.h"

namespace ringrad {

/// Throws the error again with "<who>: " before its message. An Error keeps its type and its source
/// line; another std::exception becomes an Error, at `where`, with the original nested in it;
/// anything else stays as it is.
[[noreturn]] void rethrow_of(const std::string& who, const std::exception_ptr& error, Where where);

}  // namespace ringrad
