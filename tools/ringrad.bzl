"""The kinds of target in this repository: cc_* with Ringrad's flags, so that a BUILD file lists
names, sources and dependencies and nothing else."""

load("//tools:copts.bzl", "RINGRAD_COPTS", "TEST_COPTS", "is_caller", "library_copts")
load("@ringrad_rules_cc//cc:defs.bzl", "CcInfo", "cc_binary", "cc_common", "cc_library")

# Includes read "ringrad/<path in the repository>". Bazel's folder of this repository has that name here and in a
# WORKSPACE that calls it "ringrad": then the folder's parent is on the include path. Modules get a name of Bazel's, and
# a WORKSPACE may choose another: then Bazel links each library's headers in a folder "ringrad" of the library's own,
# which works everywhere, for a few hundred -I per compiler call.
_FOLDER_IS_RINGRAD = str(Label("//:BUILD.bazel")).startswith(("//", "@ringrad//"))

_IN_OWN_WORKSPACE = not Label("//:BUILD.bazel").workspace_root

def _precompiled(what):
    """Flags and dependencies to be added to those that //tools/precompiled:precompiled_<what> is compiled with."""
    name = "precompiled_" + what
    flags = ["-include", name + ".h", "-Winvalid-pch", "-Wno-error=invalid-pch"]
    return flags, ["//tools/precompiled:" + name]

def _precompiled_for_library(what):
    """The same for a library, but not with --config=cuda, which thus finds what a source does not include."""
    flags, header = _precompiled(what)

    # GCC does not remember which parts of a precompiled header are the system's, and is wrong about them.
    flags = flags + ["-Wno-array-bounds", "-Wno-maybe-uninitialized", "-Wno-stringop-overflow", "-Wno-stringop-overread"]
    return select({"//:cuda": [], "//conditions:default": flags}), select({"//:cuda": [], "//conditions:default": header})

def has_linked_headers():
    """True if so in the package that is loaded: in one of this repository, but not in one of a project that uses it."""
    return not _FOLDER_IS_RINGRAD and native.repository_name() == "@" + Label("//:BUILD.bazel").workspace_name

def ringrad_library(
        name,
        srcs = [],
        hdrs = [],
        deps = [],
        copts = [],
        precompiled = None,
        testonly = False,
        textual_hdrs = [],
        **kwargs):
    """One header concept.

    With copts of its own it has no precompiled header, unless `precompiled` names one with the same flags.
    """
    if has_linked_headers():
        # Only what is in hdrs is linked; and a select() holds no headers.
        if type(srcs) == "list":
            hdrs = hdrs + [src for src in srcs if src.endswith(".h")]
            srcs = [src for src in srcs if not src.endswith(".h")]
        hdrs = hdrs + textual_hdrs
        textual_hdrs = []
        kwargs = dict(kwargs, include_prefix = "ringrad", strip_include_prefix = "/")
    room = native.package_name()
    if srcs and not copts and not testonly and room != "examples":  # which .bazelrc gives another -O
        precompiled = "standard_callers" if is_caller(room) else "standard"
    if precompiled and _IN_OWN_WORKSPACE:
        flags, header = _precompiled_for_library(precompiled)
        copts = copts + flags
        deps = deps + header
    cc_library(
        name = name,
        srcs = srcs,
        hdrs = hdrs,
        copts = (RINGRAD_COPTS if testonly else library_copts(room)) + copts,
        deps = deps + [str(Label("//tools:include_path"))],
        linkstatic = True,
        testonly = testonly,
        textual_hdrs = textual_hdrs,
        **kwargs
    )

def _include_path_impl(ctx):
    # In this repository itself, .bazelrc sets the folder of "ringrad/", because Bazel refuses "..".
    root = ctx.label.workspace_root
    includes = depset([root + "/.."] if root and _FOLDER_IS_RINGRAD else [])
    openmp = cc_common.create_linker_input(owner = ctx.label, user_link_flags = depset(["-fopenmp"]))
    return [CcInfo(
        # Both "ringrad/..." and <ringrad/...> are found.
        compilation_context = cc_common.create_compilation_context(quote_includes = includes, system_includes = includes),
        linking_context = cc_common.create_linking_context(linker_inputs = depset([openmp])),
    )]

# What every library and all that use it need: the folder of "ringrad/", if that is Bazel's; and OpenMP.
include_path = rule(implementation = _include_path_impl)

def include_of(src):
    """What a generated source writes between quotes to include a source of the package.

    Bazel's folder of all repositories is on the include path in the main repository only.
    """
    path = native.package_name() + "/" + src if native.package_name() else src
    if native.repository_name() == "@" + Label("//:BUILD.bazel").workspace_name and native.repository_name() != "@":
        return "ringrad/" + path
    return path

def ringrad_binary(name, deps = [], copts = [], testonly = False, **kwargs):
    """A program with its own main()."""
    if native.package_name() == "examples" and not copts and not testonly:
        copts, header = _precompiled("examples")
        deps = deps + header
    cc_binary(
        name = name,
        deps = deps,
        testonly = testonly,
        copts = RINGRAD_COPTS + copts,
        **kwargs
    )

def ringrad_test(
        name,
        deps,
        srcs = [],
        copts = [],
        data = [],
        devices = [],
        needs_gpu = False,
        shard_count = None,
        size = "small",
        **kwargs):
    """A GoogleTest program; main() and the sanitizers' suppressions come with it.

    With devices = ["cuda"] there is a second test, <name>_cuda, which runs the same program with its
    tensors on a GPU. The cases of such a test, and of one that needs a GPU, are also part of the package's
    gpu_cases().

    Linked statically, because shared libraries would require compiling every source twice.
    """

    if not copts:
        # Tests of kernels compute references that should be fast.
        fast = native.package_name().startswith("tests/kernels")
        copts, header = _precompiled("kernel_tests" if fast else "tests")
        copts = ([] if fast else TEST_COPTS) + copts
        deps = deps + header
    if devices or needs_gpu:
        ringrad_library(
            name = name + _CASES,
            testonly = True,
            srcs = srcs,
            copts = copts,
            alwayslink = True,
            deps = deps + ["//tests:device_under_test", "@googletest//:gtest"],
        )
        deps = [":" + name + _CASES]
        srcs = []
    for device in devices:
        native.sh_test(
            name = "%s_%s" % (name, device),
            size = size,
            srcs = ["//tools:on_device"],
            args = [device, "$(location :%s)" % name],
            data = data + [":" + name, "//tools/sanitizers:suppressions"],
            shard_count = shard_count,
            tags = ["gpu"],
        )
    native.cc_test(
        name = name,
        size = size,
        srcs = srcs,
        copts = RINGRAD_COPTS + copts,
        data = data + ["//tools/sanitizers:suppressions"],
        linkstatic = True,
        shard_count = shard_count,
        deps = deps + ["@googletest//:gtest_main"],
        **kwargs
    )

def ringrad_script_test(name, src, data = [], size = "small", tags = []):
    """An executable script, run where `data` lies by its path in the repository."""
    native.sh_test(
        name = name,
        size = size,
        srcs = [src],
        data = data + ["//tools/sanitizers:suppressions"],
        tags = tags,
    )

_CASES = "_cases"

def gpu_cases():
    """The cases of all tests above in the BUILD file that also run on GPUs, as library :gpu_cases."""
    ringrad_library(
        name = "gpu_cases",
        testonly = True,
        visibility = ["//tests:__pkg__"],
        deps = [":" + name for name in native.existing_rules() if name.endswith(_CASES)],
    )

def ringrad_benchmark(name, deps, **kwargs):
    """A Google Benchmark program; main() comes with it."""
    ringrad_binary(
        name = name,
        testonly = True,
        deps = deps + ["@benchmark//:benchmark_main"],
        **kwargs
    )
