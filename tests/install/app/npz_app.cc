// Writes and reads NumPy's format, with the only library that links libzip.

#include <cstdio>

#include "ringrad/data/npz.h"

int main() {
  ringrad::write_npz("batch.npz", {{"x", ringrad::arange(4)}}, /*deflates=*/true);
  std::printf("x[3] %d\n", ringrad::read_npz("batch.npz").at("x")[3].item<int>());
}
