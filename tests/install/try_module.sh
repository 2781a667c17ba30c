#!/bin/bash
# With Bazel 7: a stranger's module that depends on Ringrad's as MODULE.bazel says. Run in a clone, after tools/setup.
set -euo pipefail

clone=$PWD
stranger=$(mktemp -d)
trap 'rm -rf "$stranger"' EXIT
cd "$stranger"
cp "$clone/.cache/debian_bazel_7.bazelrc" .bazelrc
sed -n 's/^    \(bazel_dep(\|local_path_override(\)/\1/p' "$clone/MODULE.bazel" | sed "s|\"\.\.\.\"|\"$clone\"|" >MODULE.bazel
touch WORKSPACE.bzlmod  # else Bazel 7 also downloads what its old way of naming repositories has
cat >BUILD.bazel <<'EOF'
cc_binary(name = "version", srcs = ["version.cc"], copts = ["-std=c++20"], deps = ["@ringrad//core/base"])
cc_library(name = "all", deps = ["@ringrad//:" + name for name in ["ringrad", "parallel", "backends", "image", "linalg", "npz"]])
EOF
cat >version.cc <<'EOF'
#include <cstdio>
#include <ringrad/core/base/version.h>
int main() { std::puts(ringrad::version()); }
EOF
bazel build --nobuild //:all
bazel build //:version
bazel-bin/version | grep -E '^[0-9]+\.[0-9]+\.[0-9]+$'
