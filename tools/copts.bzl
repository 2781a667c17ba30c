"""Compiler and linker flags of Ringrad's own code; what the whole build shares is in .bazelrc."""

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

# No code here reads errno or floating-point exception flags after arithmetic; saying so lets loops
# over sqrt, comparisons and conversions become vector code, and changes no result.
_ARITHMETIC = [
    "-fno-math-errno",
    "-fno-trapping-math",
]

RINGRAD_COPTS = _WARNINGS + _ARITHMETIC + ["-fopenmp"]

# For simulated kernels whose accesses are checked. -O1 keeps each access where the source has it.
CHECKED_COPTS = select({
    str(Label("//:racecheck")): [
        "-O1",
        "-g1",
        "-fsanitize=thread",
        "--param=tsan-instrument-func-entry-exit=0",
    ],
    "//conditions:default": [],
})

RINGRAD_LINKOPTS = ["-fopenmp"]
