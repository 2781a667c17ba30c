// The smallest program that uses the library: its start-up time is the library's.

#include <cstdio>

#include "ringrad/ringrad.h"

int main() { std::printf("%g\n", ringrad::sum(ringrad::ones({2, 3})).item()); }
