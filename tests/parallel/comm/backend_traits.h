// What the tests of all backends must know of one of them.

#pragma once

namespace ringrad::testing {

/// Differences between libraries that a backend may show.
struct BackendTraits {
  bool min_and_max_keep_nan = true;
  bool has_one_numbering = true;  ///< of all calls; else errors show that of a host
};

}  // namespace ringrad::testing
