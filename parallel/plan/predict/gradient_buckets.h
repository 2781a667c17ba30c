// How the gradients of an arena are cut into buckets, each of which is reduced by one collective.
//
//     arena      | conv1 | bn1 | conv2 | bn2 |    fc1    | fc2 |     arrives:  fc2, fc1, bn2, ...
//                |-- bucket 2 --|-- bucket 1 --|-- bucket 0 ---|
//
// A bucket is a slice of the arena, so nothing is copied. With N bytes in buckets of b bytes, each
// of which costs alpha + b beta, communication costs the CPU or the link (N / b) alpha + N beta.
// The last bucket, alpha + b beta, remains when backward ends. The sum of the terms that depend on
// b,
//
//     (N / b) alpha + b beta,     is least for     b = sqrt(N alpha / beta)
//
// The bucket that is cut first, at the end of the last arena, is smaller, so that communication
// begins soon. Neighbouring parameters may be used at different times, for example if modules are
// registered in another order than they are called. Buckets in arena order would then fill late, so
// make_buckets also takes the order of arrival in the first pass.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringrad {

struct BucketSizes {
  std::int64_t first_bytes = 0;
  std::int64_t bytes = 0;
};

/// sqrt(N alpha / beta), at least 16 KiB and at most 32 MiB; the first bucket has a quarter of
/// that.
///
/// REQUIRES: alpha_s >= 0, beta_s_per_byte > 0
BucketSizes fitting_bucket_sizes(std::int64_t total_bytes, double alpha_s, double beta_s_per_byte);

/// One parameter's place in its arena.
struct ParameterPlace {
  std::size_t arena = 0;
  std::int64_t offset_bytes = 0;
  std::int64_t end_bytes = 0;
};

/// Parameters [begin, end), which form one slice of one arena.
struct BucketRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const BucketRange&) const = default;
};

/// A bucket is closed when it is full, where the arena ends, or, once it is half full, before a
/// parameter that arrives at another time. Returns the buckets in the order in which they will be
/// complete.
///
/// `arrival[i]` is parameter i's position, counted from 0, in the order in which gradients were
/// complete; without `arrival`, gradients arrive from the last parameter to the first.
///
/// REQUIRES: places are in the order of arena and offset; both sizes are positive
std::vector<BucketRange> make_buckets(const std::vector<ParameterPlace>& places, BucketSizes sizes,
                                      const std::vector<int>& arrival = {});

}  // namespace ringrad
