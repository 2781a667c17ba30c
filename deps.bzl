"""The repositories that Ringrad is built from, for its own WORKSPACE and for that of a project that uses it:

    local_repository(name = "ringrad", path = "...")
    load("@ringrad//:deps.bzl", "ringrad_deps")
    ringrad_deps()

All are local, so a build touches no network: Debian's packages supply the libraries (tools/setup installs
them), and tools/ supplies stand-ins for what Bazel's own defaults would download. A project that declares a
repository of the same name before keeps its own. MODULE.bazel declares the same libraries for newer Bazels.
"""

# Debian's folder of each library. Those of CUDA are looked at by --config=cuda alone: a machine without
# the toolkit builds everything else.
_LIBRARIES = {
    "asio": "/usr/include/asio",
    "benchmark": "/usr/include/benchmark",
    "cli11": "/usr/include/CLI",
    "cuda": "/usr/local/cuda",
    "cudnn_frontend": "/usr/local/cudnn_frontend",
    "dnnl": "/usr/include/oneapi/dnnl",
    "gloo": "/usr/include/gloo",
    # Alone built from source, with our own flags: the sanitizers then see inside it.
    "googletest": "/usr/src/googletest",
    "libjpeg": "/usr/share/doc/libjpeg62-turbo-dev",
    "libpng": "/usr/include/libpng16",
    "libzip": "/usr/share/doc/libzip-dev",
    "mpi": "/usr/lib/x86_64-linux-gnu/openmpi/include",
    "nlohmann_json": "/usr/include/nlohmann",
    "openblas": "/usr/include/x86_64-linux-gnu/openblas-openmp",
    "openssl": "/usr/include/openssl",
    "zlib": "/usr/share/doc/zlib1g-dev",
}

def _stand_in_impl(ctx):
    for entry in ctx.path(ctx.attr.workspace).dirname.readdir():
        ctx.symlink(entry, entry.basename)

_stand_in = repository_rule(
    implementation = _stand_in_impl,
    attrs = {"workspace": attr.label(allow_single_file = True)},
)

def _system_library_impl(ctx):
    for entry in ctx.path(ctx.attr.path).readdir():
        ctx.symlink(entry, entry.basename)
    ctx.symlink(ctx.attr.build_file, "BUILD.bazel")

_system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {
        "build_file": attr.label(allow_single_file = True),
        "path": attr.string(doc = "what the repository holds links to"),
    },
    local = True,
)

def system_libraries(present = []):
    """Declares each library but those that are present."""
    for name, path in _LIBRARIES.items():
        if name not in present:
            _system_library(
                name = name,
                build_file = Label("//third_party:%s.BUILD" % name),
                path = path,
            )

def ringrad_deps():
    """Declares them."""
    present = native.existing_rules()
    for name in ["rules_cc", "remote_coverage_tools"]:
        if name not in present:
            _stand_in(name = name, workspace = Label("//:tools/%s/WORKSPACE" % name))

    # What our own .bzl files load, whichever rules_cc the project has.
    _stand_in(name = "ringrad_rules_cc", workspace = Label("//:tools/rules_cc/WORKSPACE"))
    for name in ["rules_java", "rules_proto"]:
        if name not in present:
            native.local_repository(name = name, path = "/usr/share/bazel/rules/" + name[len("rules_"):])
    system_libraries(present)
