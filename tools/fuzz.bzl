"""Fuzz targets: one source, run by g++ over its corpus in the tests, and by clang's libFuzzer for any length of time."""

load("//tools:ringrad.bzl", "ringrad_binary", "ringrad_library", "ringrad_test")

def ringrad_fuzz_target(name, deps):
    """<name>_fuzz.cc defines LLVMFuzzerTestOneInput(); corpus/<name>/ holds its first inputs.

    <name>_corpus_test feeds it the corpus, in the ordinary build and its sanitizers. <name>_fuzzer looks for new inputs;
    only `tools/fuzz`, that is --config=fuzz, can link it.
    """
    ringrad_library(
        name = name + "_target",
        testonly = True,
        srcs = [name + "_fuzz.cc"],
        alwayslink = True,
        deps = deps,
    )
    ringrad_test(
        name = name + "_corpus_test",
        args = ["%s/corpus/%s" % (native.package_name(), name)],
        data = native.glob(["corpus/%s/*" % name]),
        deps = [
            ":" + name + "_target",
            ":replay",
        ],
    )
    ringrad_binary(
        name = name + "_fuzzer",
        testonly = True,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [":" + name + "_target"],
    )
