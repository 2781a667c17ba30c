"""Ringrad's libraries as tools/install lays them out: the objects of many targets in one file."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

_Package = provider(fields = {
    "archives": "the static libraries of its targets",
    "flags": "what the linker is told for other libraries",
    "shared": "the shared library",
})

# A version script with what is in Ringrad's namespace, but neither in the simulator's nor in kernels'. A function may
# take their types, as the LSTM takes a kernels::Cell; an instance of a template (weak: V, W, u) may not.
_EXPORTS = """
set -o pipefail
{
  echo '{ global:'
  symbols() { nm -g --defined-only "$1" | awk -v kinds="$2" '$2 ~ kinds { print $3 }'; }
  internal='(3sim|4cuda|3ops|7kernels)'
  {
    symbols "$1" '[^VWu]' | grep -E '^_Z[A-Z]*7ringrad' | grep -vE "^_Z[A-Z]*7ringrad$internal"
    symbols "$1" '[VWu]' | grep '7ringrad' | grep -vE "(7ringrad|S[0-9A-Z]*_)$internal"
  } | sort -u | sed 's/$/;/'
  echo 'local: *; };'
} >"$2"
"""

def _package_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    inputs = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).linking_context
    archives, flags = [], []
    for input in inputs.linker_inputs.to_list():
        flags += [flag for flag in input.user_link_flags if flag not in flags]
        archives += [library.static_library for library in input.libraries if library.static_library]
    others = [package[_Package] for package in ctx.attr.packages]
    elsewhere = {archive: None for other in others for archive in other.archives}
    archives = [archive for archive in archives if archive not in elsewhere]

    static = ctx.actions.declare_file("lib%s.a" % ctx.label.name)
    ctx.actions.run_shell(
        command = "printf '%s' \"$1\" | /usr/bin/ar -M",
        arguments = ["create %s\n%ssave\nend\n" % (
            static.path,
            "".join(["addlib %s\n" % archive.path for archive in archives]),
        )],
        inputs = archives,
        outputs = [static],
        mnemonic = "MergeArchives",
    )

    exports = ctx.actions.declare_file(ctx.label.name + ".map")
    ctx.actions.run_shell(
        command = _EXPORTS,
        arguments = [static.path, exports.path],
        inputs = [static],
        outputs = [exports],
        mnemonic = "Exports",
    )

    shared = ctx.actions.declare_file("lib%s.so.%s" % (ctx.label.name, ctx.attr.abi))
    arguments = ctx.actions.args()
    arguments.add_all(["-shared", "-fopenmp", "-Wl,-z,defs", "-Wl,--gc-sections"])
    arguments.add("-Wl,-soname," + shared.basename)
    arguments.add(exports, format = "-Wl,--version-script,%s")
    arguments.add_all(["-Wl,--whole-archive", static, "-Wl,--no-whole-archive"])
    arguments.add_all([other.shared for other in others])
    arguments.add("-Wl,-rpath,$ORIGIN")  # the others lie beside it
    arguments.add_all(flags + ["-lstdc++", "-lm"])
    arguments.add("-o", shared)
    ctx.actions.run(
        executable = toolchain.compiler_executable,
        arguments = [arguments],
        inputs = [static, exports] + [other.shared for other in others],
        outputs = [shared],
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin"},
        mnemonic = "LinkShared",
    )

    needed = ctx.actions.declare_file(ctx.label.name + ".flags")
    ctx.actions.write(needed, " ".join(flags) + "\n")
    return [
        DefaultInfo(files = depset([static, shared, needed])),
        _Package(archives = archives, flags = flags, shared = shared),
    ]

ringrad_package = rule(
    implementation = _package_impl,
    doc = "lib<name>.a, lib<name>.so.<abi>, and in <name>.flags what a static program links besides.",
    attrs = {
        "abi": attr.string(mandatory = True, doc = "programs work with libraries of the same one"),
        "deps": attr.label_list(providers = [CcInfo], mandatory = True),
        "packages": attr.label_list(providers = [_Package], doc = "what is in them is not in this one"),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
