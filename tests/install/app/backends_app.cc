// Every backend is in the library that chooses one by name.

#include <cstdio>

#include "ringrad/parallel/comm/network/join_group.h"

int main() {
  for (const auto& name : ringrad::backend_names()) std::printf("%s ", name.c_str());
  const auto comm = ringrad::join_group("processes");
  std::printf("%d\n", comm->world_size());
}
