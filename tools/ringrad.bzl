"""The four kinds of target in this repository: cc_* with Ringrad's flags, so that a BUILD file lists
names, sources and dependencies and nothing else."""

load("//tools:copts.bzl", "RINGRAD_COPTS", "RINGRAD_LINKOPTS")

def ringrad_library(name, copts = [], **kwargs):
    """One header concept."""
    native.cc_library(
        name = name,
        copts = RINGRAD_COPTS + copts,
        linkstatic = True,
        **kwargs
    )

def ringrad_binary(name, copts = [], linkopts = [], **kwargs):
    """A program with its own main()."""
    native.cc_binary(
        name = name,
        copts = RINGRAD_COPTS + copts,
        linkopts = RINGRAD_LINKOPTS + linkopts,
        **kwargs
    )

def ringrad_test(name, deps, copts = [], linkopts = [], data = [], size = "small", **kwargs):
    """A GoogleTest program; main() and the sanitizers' suppressions come with it.

    Linked statically: shared libraries would have every source compiled a second time.
    """
    native.cc_test(
        name = name,
        size = size,
        copts = RINGRAD_COPTS + copts,
        data = data + ["//tools/sanitizers:suppressions"],
        linkopts = RINGRAD_LINKOPTS + linkopts,
        linkstatic = True,
        deps = deps + ["@googletest//:gtest_main"],
        **kwargs
    )

def ringrad_benchmark(name, deps, **kwargs):
    """A Google Benchmark program; main() comes with it."""
    ringrad_binary(
        name = name,
        testonly = True,
        deps = deps + ["@benchmark//:benchmark_main"],
        **kwargs
    )
