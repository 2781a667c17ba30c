"""The libraries of deps.bzl for MODULE.bazel."""

load("//:deps.bzl", "system_libraries")

def _system_libraries_impl(_):
    system_libraries()

system_libraries_extension = module_extension(implementation = _system_libraries_impl)
