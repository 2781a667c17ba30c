// RINGRAD_CLONES: compiles one loop for several instruction sets and chooses among them when the
// program starts.
//
// The library is built for x86-64-v2, so that it runs everywhere; a loop marked with this macro
// also exists for AVX2 and AVX-512. `flatten` inlines the loop's functor into each copy. Put the
// macro on the function that holds the loop, never on the functor.
//
// Clang has no such copies of templates: it compiles for the processors that RINGRAD_MACHINE of
// CMakeLists.txt names.
//
// The wider copies contract a * b + c into one rounding: the last bits may differ between machines,
// but never between runs on one machine.

#pragma once

// The resolvers run before a sanitizer's runtime is ready, so sanitizer builds have one copy only.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(RINGRAD_SANITIZE)
#define RINGRAD_HAS_CLONES 1
#define RINGRAD_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten))
#else
#define RINGRAD_HAS_CLONES 0
#define RINGRAD_CLONES
#endif

// Before a loop: none of its iterations reads what another writes. (Clang finds out while it runs.)
#ifdef __clang__
#define RINGRAD_INDEPENDENT
#else
#define RINGRAD_INDEPENDENT _Pragma("GCC ivdep")
#endif
