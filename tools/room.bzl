"""A room: a folder that is one library. Its BUILD file says who may use it and what it uses; a new file needs no line."""

load("//tools:cuda.bzl", "ringrad_cuda_library")
load("//tools:ringrad.bzl", "include_of", "ringrad_library")

def ringrad_room(
        deps = [],
        srcs = [],
        apart = [],
        parts = [],
        alone = ["*_cpu.cc"],
        one_by_one = ["//:one_by_one"],
        copts = [],
        nvcc_copts = [],
        simulated_copts = [],
        linkopts = []):
    """All headers and sources of a folder, as a library of the folder's name.

    Args:
      deps: what the headers, sources and kernels use
      srcs: sources that are made or chosen, besides those of the folder
      apart: patterns of files that other targets of the BUILD file hold
      parts: libraries of the BUILD file that come with the room. They may use its headers, as :<name>_headers, and not
        its sources. Kernels are such a part.
      alone: patterns of sources that are compiled one by one: those whose own code takes long. The others are compiled
        as one, since most of their time goes to the headers that they share; so names of a room's unnamed namespaces must
        differ.
      one_by_one: conditions under which these are compiled one by one too. --define=sources=one_by_one shows missing
        includes.
      nvcc_copts, simulated_copts: for kernels, on real and on simulated GPUs
    """
    name = native.package_name().split("/")[-1]
    kernels = native.glob(["*.cu"], exclude = apart)
    ringrad_library(
        name = name + "_headers",
        hdrs = native.glob(["*.h", "*.cuh", "*.inc"], exclude = apart),
        deps = deps,
    )
    if kernels:
        ringrad_cuda_library(
            name = name + "_cuda",
            srcs = kernels,
            nvcc_copts = nvcc_copts,
            simulated_copts = simulated_copts,
            deps = [":%s_headers" % name] + parts,
        )
        parts = [":%s_cuda" % name] + parts
    together = native.glob(["*.cc"], exclude = apart + alone)
    if together:
        native.genrule(
            name = name + "_together",
            outs = [name + "_together.cc"],
            cmd = "printf '#include \"%s\"\\n' " + " ".join([include_of(src) for src in together]) + " >$@",
        )
        conditions = {str(Label(condition)): together for condition in one_by_one}
        srcs = srcs + select(dict(conditions, **{"//conditions:default": [":%s_together" % name]}))
    ringrad_library(
        name = name,
        srcs = srcs + native.glob(alone, exclude = apart),
        copts = copts,
        linkopts = linkopts,
        textual_hdrs = together,
        deps = [":%s_headers" % name] + parts,
    )
