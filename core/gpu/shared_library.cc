#include "ringrad/core/gpu/shared_library.h"

#include <dlfcn.h>

namespace ringrad {

SharedLibrary::SharedLibrary(std::initializer_list<const char*> names) {
  for (const char* name : names)
    for (const std::string& path :
         {std::string(name), std::string("/usr/local/cuda/lib64/") + name}) {
      handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_) {
        missing_.clear();
        return;
      }
      if (missing_.empty()) missing_ = dlerror();
    }
}

void* SharedLibrary::address_of(const char* symbol) {
  if (!handle_) return nullptr;
  void* address = dlsym(handle_, symbol);
  if (!address && missing_.empty()) missing_ = dlerror();
  return address;
}

}  // namespace ringrad
