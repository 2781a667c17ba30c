"""A room: a folder that is one library. Its BUILD file says who may use it and what it uses; a new file needs no line."""

load("//tools:cuda.bzl", "ringrad_cuda_library")
load("//tools:ringrad.bzl", "ringrad_library")

def ringrad_room(
        deps = [],
        srcs = [],
        apart = [],
        parts = [],
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
    ringrad_library(
        name = name,
        srcs = srcs + native.glob(["*.cc"], exclude = apart),
        copts = copts,
        linkopts = linkopts,
        deps = [":%s_headers" % name] + parts,
    )
