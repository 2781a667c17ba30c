// What every test includes, parsed once (tools/precompiled_header.bzl).

#include <gtest/gtest.h>
