"""Compiler and linker flags of Ringrad's own code; what the whole build shares is in .bazelrc."""

_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wnon-virtual-dtor",
    "-Woverloaded-virtual",
    "-Wshadow=local",
    "-Werror",
    # GCC 12 sees an overlap in std::string's operator+ that is not there (GCC bug 105651).
    "-Wno-restrict",
]

# No code here reads errno or floating-point exception flags after arithmetic; saying so lets loops
# over sqrt, comparisons and conversions become vector code, and changes no result.
_ARITHMETIC = [
    "-fno-math-errno",
    "-fno-trapping-math",
]

RINGRAD_COPTS = _WARNINGS + _ARITHMETIC + ["-fopenmp"]

RINGRAD_LINKOPTS = ["-fopenmp"]
