// A library that is loaded when it is first needed, so that a program starts without it.

#pragma once

#include <initializer_list>
#include <string>

namespace ringrad {

class SharedLibrary {
 public:
  /// Tries the file names in order, each on the system's search path and in the CUDA toolkit's
  /// folder. The library is never closed, since such libraries do not survive that.
  explicit SharedLibrary(std::initializer_list<const char*> names);

  /// Looks up a function. The library counts as missing if any function is not found.
  template <class Function>
  void find(const char* symbol, Function*& function) {
    function = reinterpret_cast<Function*>(address_of(symbol));
  }

  /// The handle from dlopen(), for other loaders; null if the library is missing.
  void* handle() const { return handle_; }

  /// What is missing, in the system's words; empty if everything was found.
  const std::string& missing() const { return missing_; }

 private:
  void* address_of(const char* symbol);

  void* handle_ = nullptr;
  std::string missing_;
};

}  // namespace ringrad
