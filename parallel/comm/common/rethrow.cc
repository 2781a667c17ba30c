#include "ringrad/parallel/comm/common/rethrow.h"

namespace ringrad {
namespace {

// Throws a `Type` with `who` before its message if the error is one.
template <class Type>
void rethrow_if(const Error& error, const std::string& who) {
  if (dynamic_cast<const Type*>(&error) != nullptr)
    throw Type(concat(who, ": ", error.message()), error.where());
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
    throw Error(concat(who, ": ", e.message()), e.where());
  } catch (const std::exception& e) {
    std::throw_with_nested(Error(concat(who, ": ", e.what()), where));
  }
}

}  // namespace ringrad
