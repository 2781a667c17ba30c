// A host that loads Ringrad when it runs, as Python does.

#include <dlfcn.h>

#include <cstdio>

int main(int, char** argv) {
  for (int round = 0; round < 2; ++round) {
    void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) return std::fprintf(stderr, "%s\n", dlerror()), 1;
    const auto version =
        reinterpret_cast<const char* (*)()>(dlsym(library, "_ZN7ringrad7versionEv"));
    if (!version) return std::fprintf(stderr, "%s\n", dlerror()), 1;
    std::printf("%s\n", version());
    dlclose(library);
  }
}
