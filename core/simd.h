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
// In this order: if another attribute comes after target_clones, g++ 16.2 gives copies to one
// instantiation of a template alone.
#define RINGRAD_CLONES \
  __attribute__((flatten, target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
// The same without the copy for AVX2, for loops that are chosen with AVX-512 alone: a third copy
// would take room in every program.
#define RINGRAD_AVX512_CLONES __attribute__((flatten, target_clones("arch=x86-64-v4", "default")))
#else
#define RINGRAD_HAS_CLONES 0
#define RINGRAD_CLONES
#define RINGRAD_AVX512_CLONES
#endif

// Before a loop: none of its iterations reads what another writes. (Clang finds out while it runs.)
#ifdef __clang__
#define RINGRAD_INDEPENDENT
#else
#define RINGRAD_INDEPENDENT _Pragma("GCC ivdep")
#endif
