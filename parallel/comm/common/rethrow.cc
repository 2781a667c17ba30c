#include "ringrad/parallel/comm/common/rethrow.h"

#include <typeinfo>
#include <utility>

namespace ringrad {
namespace {

// Throws a `Type` with `who` before the error's message. If the error is of a type derived from
// `Type`, such as a user's own, it is nested.
// REQUIRES: the error is a `Type`, and is being handled
template <class Type>
[[noreturn]] void rethrow_as(const Error& error, const std::string& who) {
  Type named(concat(who, ": ", error.message()), error.where());
  if (typeid(error) == typeid(Type)) throw named;
  std::throw_with_nested(std::move(named));
}

template <class Type>
void rethrow_if(const Error& error, const std::string& who) {
  if (dynamic_cast<const Type*>(&error) != nullptr) rethrow_as<Type>(error, who);
}

template <class... Types>
void rethrow_as_one_of(const Error& error, const std::string& who) {
  (rethrow_if<Types>(error, who), ...);
}

}  // namespace

void rethrow_of(const std::string& who, const std::exception_ptr& error, Where where) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    rethrow_as_one_of<ShapeError, DTypeError, DeviceError, IndexError, ValueError, AutogradError,
                      DataError, OutOfMemoryError, CudaError, CollectiveError, InternalError>(e,
                                                                                              who);
    rethrow_as<Error>(e, who);
  } catch (const std::exception& e) {
    std::throw_with_nested(Error(concat(who, ": ", e.what()), where));
  }
}

}  // namespace ringrad
