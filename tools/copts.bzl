"""Compiler and linker flags of Ringrad's own code; flags shared by the whole build are in .bazelrc."""

# Of this repository, in Bazel's folder for commands.
_ROOT = (Label("//:BUILD.bazel").workspace_root + "/").lstrip("/")

# Those of a project that uses Ringrad are its own.
_WARNINGS = ["-w"] if _ROOT else [
    "-Wall",
    "-Wextra",
    "-Wnon-virtual-dtor",
    "-Woverloaded-virtual",
    "-Wshadow=local",
    "-Werror",
    # A room's sources are compiled as one (room.bzl): what is in them is of no other program's.
    "-Wno-subobject-linkage",
    # GCC 12 reports an overlap in std::string's operator+ that does not exist (GCC bug 105651).
    "-Wno-restrict",
]

# No code here reads errno or floating-point exception flags after arithmetic. These flags let loops
# over sqrt, comparisons and conversions become vector code, without changing any result.
_ARITHMETIC = [
    "-fno-math-errno",
    "-fno-trapping-math",
]

# The simulator's <cuda_runtime.h> is found by Ringrad's sources alone: a program that includes it gets
# the toolkit's.
_SIMULATED_CUDA = select({
    str(Label("//:cuda")): [],
    "//conditions:default": ["-I%ssim/include" % _ROOT],
})

_ONEDNN = select({
    str(Label("//:without_onednn")): ["-DRINGRAD_ONEDNN=0"],
    "//conditions:default": [],
})

# A program starts on any such machine: wider vectors come from function clones in the code, chosen when it starts.
_MACHINE = select({
    str(Label("//:arm64")): [],
    "//conditions:default": ["-march=x86-64-v2"],
})

RINGRAD_COPTS = ["-std=c++20", "-fopenmp"] + _MACHINE + _WARNINGS + _ARITHMETIC + _SIMULATED_CUDA + _ONEDNN

# Simulated kernels. With -Os they take a third less room in programs than with -O1, and half of -O3's time to compile.
# They can be told to stop at arithmetic on unwritten memory (sim/unwritten.h), so the compiler must not add arithmetic
# that is not in the source. -O1 keeps each checked access where the source has it.
CHECKED_COPTS = select({
    str(Label("//:racecheck")): [
        "-O1",
        "-g1",
        "-fsanitize=thread",
        "--param=tsan-instrument-func-entry-exit=0",
    ],
    "//conditions:default": [],
})
SIMULATED_COPTS = ["-ftrapping-math", "-Wno-unknown-pragmas", "-Os"] + CHECKED_COPTS

# Only for AddressSanitizer: headers must mean the same in all sources of a program (core/base/allocator.h).
PLAIN_COPTS = select({
    str(Label("//:plain_kernels")): ["-Og", "-fno-sanitize=all", "-D__SANITIZE_ADDRESS__=1"],
    "//conditions:default": [],
})

# The rooms whose code decides and calls. Their loops over elements are elsewhere, so that -O3 would
# make them larger, slower to compile, and no faster; all but the tape, in autograd/ itself, which
# takes a tenth less time per node with -O3.
_CALLERS = (
    "autograd",
    "nn",
    "parallel/comm/job",
    "parallel/comm/network",
    "parallel/comm/store",
    "parallel/plan",
    "parallel/train",
)

def is_caller(room):
    return room != "autograd" and any([(room + "/").startswith(caller + "/") for caller in _CALLERS])

# The same objects make programs and shared libraries (tools/install).
def library_copts(room):
    return RINGRAD_COPTS + select({
        str(Label("//:optimised")): (["-O2"] if is_caller(room) else []) + [
            "-fPIC",
            "-fno-semantic-interposition",
            "-fvisibility-inlines-hidden",
        ],
        "//conditions:default": [],
    })

# Tests are as much code as the library itself, and need not be fast.
TEST_COPTS = RINGRAD_COPTS + select({
    # With -Og programs have functions of shared_ptr that Gloo, which is not instrumented, then calls.
    str(Label("//:tsan")): ["-O1"],
    "//conditions:default": ["-Og"],
})
