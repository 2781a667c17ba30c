"""The repositories that Ringrad is built from, for its own WORKSPACE and for that of a project that uses it:

    local_repository(name = "ringrad", path = "...")
    load("@ringrad//:deps.bzl", "ringrad_deps")
    ringrad_deps()

All are local, so a build touches no network: the system's packages supply the libraries (third_party/packages.txt;
tools/setup installs them), and tools/ supplies stand-ins for what Bazel's own defaults would download. A project that
declares a repository of the same name before keeps its own. MODULE.bazel declares the same libraries for newer Bazels.
"""

_LIBRARIES = [
    "asio",
    "benchmark",
    "cli11",
    "dnnl",
    "gloo",
    # Alone built from source, with our own flags: the sanitizers then see inside it.
    "googletest",
    "libjpeg",
    "libpng",
    "libzip",
    "mpi",
    "nlohmann_json",
    "openblas",
    "openssl",
    "zlib",
]

# What --config=cuda needs is of no package: a machine without it builds everything else.
_TOOLKITS = {
    "cuda": "/usr/local/cuda",
    "cudnn_frontend": "/usr/local/cudnn_frontend",
}

def _stand_in_impl(ctx):
    for entry in ctx.path(ctx.attr.workspace).dirname.readdir():
        ctx.symlink(entry, entry.basename)

_stand_in = repository_rule(
    implementation = _stand_in_impl,
    attrs = {"workspace": attr.label(allow_single_file = True)},
)

def _words(text):
    return [word for word in text.replace("\n", " ").split(" ") if word]

def _output(ctx, command):
    """What a command writes; "" if there is no such command, or it fails."""
    if not (ctx.path(command[0]).exists if command[0].startswith("/") else ctx.which(command[0])):
        return ""
    result = ctx.execute(command, environment = {"LC_ALL": "C"})
    return result.stdout + result.stderr if result.return_code == 0 else ""

def _compiler_folders(ctx):
    """Where the C++ compiler looks for headers."""
    words = _output(ctx, [ctx.os.environ.get("CC") or "gcc", "-x", "c++", "-E", "-v", "/dev/null"])
    folders = words.partition("#include <...> search starts here:")[2].partition("End of search list.")[0]
    return [ctx.path(folder) for folder in _words(folders)]

def _find(ctx):
    """The folder or the header that a library's repository links to, and the folder of the library itself."""
    rows = [_words(line) for line in ctx.read(ctx.attr.packages).splitlines() if _words(line) and not line.startswith("#")]
    _, marks, debian, fedora, arch = [row for row in rows if row[0] == ctx.attr.library][0]
    header_folders = _compiler_folders(ctx)
    own_headers, own_libraries = [
        [ctx.path(folder) for folder in _words(_output(ctx, ["mpicxx", "--showme:" + what]))] if ctx.attr.library == "mpi" else []
        for what in ["incdirs", "libdirs"]
    ]
    for mark in marks.split("|"):
        if mark.startswith("/") and ctx.path(mark).exists:
            return ctx.path(mark), None
        for folder in own_headers + header_folders:
            header = ctx.path("%s/%s" % (folder, mark))
            if header.exists:
                # Debian has several OpenBLAS: a folder of headers each, and one of libraries of the same name.
                libraries = own_libraries + [str(header.dirname).replace("/include/", "/lib/")]
                return header if header.dirname in header_folders else header.dirname, libraries[0]
    fail("Ringrad needs %s, of package %s on Debian and Ubuntu, %s on Fedora, %s on Arch" %
         (marks.replace("|", " or "), debian, fedora, arch))

def _system_library_impl(ctx):
    found, library_folder = (ctx.path(ctx.attr.path), None) if ctx.attr.path else _find(ctx)
    if not found.exists:
        fail("--config=cuda needs %s (docs/gpu.md)" % found)

    # Bazel sees changes of what is linked.
    for entry in [found] if found.basename.endswith((".h", ".hpp")) else found.readdir():
        ctx.symlink(entry, entry.basename)
    mpi = [name for name in _words(_output(ctx, ["mpicxx", "--showme:libs"])) if name != "mpi_cxx"] if ctx.attr.library == "mpi" else []
    ctx.template("BUILD.bazel", ctx.attr.build_file, {
        "%{library_flags}": ", ".join(["\"-l%s\"" % name for name in mpi]),
        "%{library_folder}": str(library_folder),
    })

_system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {
        "build_file": attr.label(allow_single_file = True),
        "library": attr.string(doc = "its row of packages.txt"),
        "packages": attr.label(default = Label("//third_party:packages.txt"), allow_single_file = True),
        "path": attr.string(doc = "its folder, if it has no such row"),
    },
    environ = ["CC"],
    local = True,
)

def system_libraries(present = []):
    """Declares each library but those that are present."""
    for name in _LIBRARIES + _TOOLKITS.keys():
        if name not in present:
            _system_library(
                name = name,
                build_file = Label("//third_party:%s.BUILD" % name),
                library = name,
                path = _TOOLKITS.get(name, ""),
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
