"""A header that GCC parses once for all sources that are compiled with the same flags."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    dependencies = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    context = dependencies.compilation_context
    header = ctx.file.header
    name = "%s/%s.h" % (ctx.label.name, ctx.label.name)

    # An empty header, since sources include all that they use. In its place GCC takes <name>.h.gch, unless that is of
    # another version of GCC.
    empty = ctx.actions.declare_file(name)
    ctx.actions.write(empty, "")
    headers = [empty]
    if toolchain.compiler in ["compiler", "gcc"]:  # Bazel names only clang
        precompiled = ctx.actions.declare_file(name + ".gch")
        headers.append(precompiled)
        flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts
        variables = cc_common.create_compile_variables(
            feature_configuration = features,
            cc_toolchain = toolchain,
            user_compile_flags = flags + ["-x", "c++-header"],
            source_file = header.path,
            output_file = precompiled.path,
            include_directories = context.includes,
            quote_include_directories = context.quote_includes,
            system_include_directories = context.system_includes,
            preprocessor_defines = context.defines,
        )
        action = dict(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
        )
        ctx.actions.run(
            mnemonic = "CppPrecompile",
            executable = cc_common.get_tool_for_action(**action),
            arguments = cc_common.get_memory_inefficient_command_line(variables = variables, **action),
            env = cc_common.get_environment_variables(variables = variables, **action),
            inputs = depset([header], transitive = [context.headers, toolchain.all_files]),
            outputs = [precompiled],
        )

    own = cc_common.create_compilation_context(
        headers = depset(headers),
        quote_includes = depset([empty.dirname]),
    )
    return [cc_common.merge_cc_infos(direct_cc_infos = [CcInfo(compilation_context = own), dependencies])]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    doc = """Makes `-include <name>.h` find the precompiled header.

    GCC does not see that -O differs between the header and a source that includes it, and may then crash. So
    both take the same `copts`.
    """,
    attrs = {
        "header": attr.label(allow_single_file = [".h"], mandatory = True),
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
