// The least that a program can do with the library: its start is the library's start.

#include <cstdio>

#include "ringrad/ringrad.h"

int main() { std::printf("%g\n", ringrad::sum(ringrad::ones({2, 3})).item()); }
