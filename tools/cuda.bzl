"""CUDA sources, in two flavours of one build.

A user's own kernels are built by ringrad_kernel, which works in other repositories too.

By default a .cu file is compiled as C++ against the simulated runtime in //sim. With --config=cuda nvcc
compiles it for real devices. BUILD files are the same for both: they list .cu files in
ringrad_cuda_library and ringrad_cuda_test.
"""

load("//tools:copts.bzl", "PLAIN_COPTS", "SIMULATED_COPTS")
load("//tools:ringrad.bzl", "has_linked_headers", "include_of", "ringrad_library", "ringrad_test")
load("@ringrad_rules_cc//cc:defs.bzl", "CcInfo", "cc_common")

_SM_90 = "-gencode=arch=compute_90,code=sm_90"
_PTX_90 = "-gencode=arch=compute_90,code=compute_90"
_ARCHITECTURES = select({
    str(Label("//:sm_90_only")): [_SM_90],
    str(Label("//:sm_90_and_ptx")): [_SM_90, _PTX_90],
    str(Label("//:all_architectures")): ["-arch=all"],
    "//conditions:default": ["-gencode=arch=compute_80,code=sm_80", _SM_90, _PTX_90],
})

def _nvcc_objects_impl(ctx):
    context = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    directories = depset(transitive = [context.includes, context.quote_includes, context.system_includes])
    objects, logs = [], []
    for src in ctx.files.srcs:
        object = ctx.actions.declare_file(ctx.label.name + "/" + src.basename + ".o")
        log = ctx.actions.declare_file(ctx.label.name + "/" + src.basename + ".ptxas.log")
        arguments = ctx.actions.args()
        arguments.add_all(["-c", "-x", "cu", "-std=c++20", "-O3", "--expt-relaxed-constexpr"])

        # nvcc names temporary files after its process id, which is the same in every sandbox.
        arguments.add("--objdir-as-tempdir")
        arguments.add_all(ctx.attr.architectures)
        arguments.add_all(["-Xcompiler", "-Wall,-Wextra,-fPIC", "-Werror", "all-warnings"])
        arguments.add("-Xptxas=-v")  # registers, stack and spills of each kernel, for the log
        arguments.add("--no-compress")  # so that tools/check_kernels can read the PTX
        arguments.add_all(ctx.attr.copts)
        arguments.add_all(context.defines, format_each = "-D%s")
        arguments.add_all(directories, before_each = "-I")
        arguments.add_all(["-I", ".", "-I", ".."])
        arguments.add(src)
        arguments.add("-o", object)
        ctx.actions.run_shell(
            command = "log=$1; shift; /usr/local/cuda/bin/nvcc \"$@\" 2>$log || { grep -v '^ptxas info' $log >&2; exit 1; }",
            arguments = [log.path, arguments],
            inputs = depset(ctx.files.srcs + ctx.files.hdrs, transitive = [context.headers]),
            outputs = [object, log],
            env = {"PATH": "/usr/local/bin:/usr/bin:/bin"},
            mnemonic = "Nvcc",
        )
        objects.append(object)
        logs.append(log)
    return [
        DefaultInfo(files = depset(objects)),
        OutputGroupInfo(ptxas = depset(logs)),
    ]

_nvcc_objects = rule(
    implementation = _nvcc_objects_impl,
    attrs = {
        "architectures": attr.string_list(),
        "copts": attr.string_list(),
        "srcs": attr.label_list(allow_files = [".cu"]),
        "hdrs": attr.label_list(allow_files = True),
        "deps": attr.label_list(providers = [CcInfo]),
    },
)

def ringrad_cuda_library(
        name,
        srcs,
        hdrs = [],
        deps = [],
        nvcc_copts = [],
        simulated_copts = [],
        testonly = False,
        **kwargs):
    """Kernels and their launchers."""
    deps = deps + [str(Label("//core/gpu:cuda"))]
    simulated = ["%s_simulated/%s.cc" % (name, src) for src in srcs]
    for src, cc in zip(srcs, simulated):
        native.genrule(
            name = cc + "_rule",
            srcs = [src],
            outs = [cc],
            cmd = "echo '#include \"%s\"' > $@" % include_of(src),
        )
    headers = []
    if has_linked_headers():
        headers = [":%s_headers" % name]
        ringrad_library(
            name = name + "_headers",
            hdrs = hdrs,
            testonly = testonly,
            deps = deps,
        )
    _nvcc_objects(
        name = name + "_nvcc",
        architectures = _ARCHITECTURES,
        copts = nvcc_copts,
        srcs = srcs,
        hdrs = hdrs,
        tags = ["manual"],
        testonly = testonly,
        deps = deps + headers,
    )
    ringrad_library(
        name = name,
        srcs = select({
            str(Label("//:cuda")): [":%s_nvcc" % name],
            "//conditions:default": simulated,
        }),
        hdrs = hdrs,
        copts = SIMULATED_COPTS + simulated_copts + ([] if testonly else PLAIN_COPTS),
        precompiled = None if simulated_copts or testonly else "standard_kernels",
        testonly = testonly,
        textual_hdrs = srcs,
        deps = deps,
        **kwargs
    )

def ringrad_kernel(name, src, hdrs, deps = [], **kwargs):
    """Kernels of your own and the operator that launches them (docs/own_kernel.md).

    Args:
      src: the .cu file
      hdrs: its headers, in plain C++
      deps: libraries besides Ringrad
    """
    ringrad_cuda_library(
        name = name,
        srcs = [src],
        hdrs = hdrs,
        deps = [str(Label("//:own_kernel"))] + deps,
        **kwargs
    )

def ringrad_cuda_test(name, srcs, deps = [], **kwargs):
    """A GoogleTest program with kernels; it must skip its tests if there is no device."""
    ringrad_cuda_library(
        name = name + "_cases",
        srcs = srcs,
        alwayslink = True,
        # GoogleTest's macros declare unused members.
        nvcc_copts = ["-diag-suppress=177"],
        testonly = True,
        deps = deps + ["@googletest//:gtest"],
    )
    ringrad_test(
        name = name,
        deps = [":%s_cases" % name],
        **kwargs
    )
