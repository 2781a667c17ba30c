// RINGRAD_CLONES: one loop, compiled for several instruction sets, chosen when the program starts.
//
// The library is built for x86-64-v2, so that it starts everywhere; a loop marked with this macro
// also exists for AVX2 and AVX-512. `flatten` pulls the functor a loop is given into each copy. Put
// it on the function that holds the loop, never on the functor.
//
// The wider copies contract a * b + c into one rounding: last bits may differ between machines,
// never between runs on one.

#pragma once

// The resolvers run before a sanitizer's runtime is ready, so sanitizer builds have one copy only.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(RINGRAD_SANITIZE)
#define RINGRAD_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten))
#else
#define RINGRAD_CLONES
#endif
