// The version of the library, by the rules of semver.org. While the first number is 0, any minor
// release may change interfaces; CHANGELOG.md says how.

#pragma once

#define RINGRAD_VERSION_MAJOR 0
#define RINGRAD_VERSION_MINOR 2
#define RINGRAD_VERSION_PATCH 0

namespace ringrad {

/// "0.2.0": the version of the library that the program runs with. The macros above have the
/// version of the headers that it was compiled with.
const char* version();

}  // namespace ringrad
