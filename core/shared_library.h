// A library that is looked for when it is first needed, so that a program starts without it.

#pragma once

#include <initializer_list>
#include <string>

namespace ringrad {

class SharedLibrary {
 public:
  /// Tries the file names in order, as the system finds them and in the CUDA toolkit's folder. Never closed:
  /// such libraries do not survive it.
  explicit SharedLibrary(std::initializer_list<const char*> names);

  /// Looks up every function; the library counts as missing if one is not there.
  template <class Function>
  void find(const char* symbol, Function*& function) {
    function = reinterpret_cast<Function*>(address_of(symbol));
  }

  /// As dlopen() gives it, for others' loaders; null if the library is missing.
  void* handle() const { return handle_; }

  /// What is missing, as the system says it; empty if all is there.
  const std::string& missing() const { return missing_; }

 private:
  void* address_of(const char* symbol);

  void* handle_ = nullptr;
  std::string missing_;
};

}  // namespace ringrad
