"""Compiler and linker flags of Ringrad's own code; flags shared by the whole build are in .bazelrc."""

_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wnon-virtual-dtor",
    "-Woverloaded-virtual",
    "-Wshadow=local",
    "-Werror",
    # GCC 12 reports an overlap in std::string's operator+ that does not exist (GCC bug 105651).
    "-Wno-restrict",
]

# No code here reads errno or floating-point exception flags after arithmetic. These flags let loops
# over sqrt, comparisons and conversions become vector code, without changing any result.
_ARITHMETIC = [
    "-fno-math-errno",
    "-fno-trapping-math",
]

RINGRAD_COPTS = _WARNINGS + _ARITHMETIC + ["-fopenmp"]

# For simulated kernels with checked accesses. -O1 keeps each access where the source has it.
CHECKED_COPTS = select({
    str(Label("//:racecheck")): [
        "-O1",
        "-g1",
        "-fsanitize=thread",
        "--param=tsan-instrument-func-entry-exit=0",
    ],
    "//conditions:default": [],
})

# Tests are as much code as the library itself, and need not be fast.
TEST_COPTS = RINGRAD_COPTS + select({
    # With -Og programs have functions of shared_ptr that Gloo, which is not instrumented, then calls.
    str(Label("//:tsan")): ["-O1"],
    "//conditions:default": ["-Og"],
})

RINGRAD_LINKOPTS = ["-fopenmp"]
