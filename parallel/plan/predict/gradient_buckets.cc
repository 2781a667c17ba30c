#include "ringrad/parallel/plan/predict/gradient_buckets.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace ringrad {
namespace {

// Parameters of one layer arrive in any order; those of another part of the model, much later.
constexpr int kSameTime = 8;

}  // namespace

BucketSizes fitting_bucket_sizes(std::int64_t total_bytes, double alpha_s, double beta_s_per_byte) {
  constexpr double kLeast = 16 * 1024, kMost = 32 * 1024 * 1024;
  const double best = std::sqrt(static_cast<double>(total_bytes) * alpha_s / beta_s_per_byte);
  const auto bytes = static_cast<std::int64_t>(std::clamp(best, kLeast, kMost));
  return {bytes / 4, bytes};
}

std::vector<BucketRange> make_buckets(const std::vector<ParameterPlace>& places, BucketSizes sizes,
                                      const std::vector<int>& arrival) {
  const std::size_t n = places.size();
  std::vector<int> when = arrival;
  if (when.empty()) {
    when.resize(n);
    std::iota(when.rbegin(), when.rend(), 0);
  }
  std::vector<BucketRange> buckets;
  for (std::size_t end = n; end > 0;) {
    const std::int64_t wanted = buckets.empty() ? sizes.first_bytes : sizes.bytes;
    std::size_t begin = end - 1;
    for (; begin > 0; --begin) {
      const ParameterPlace& next = places[begin - 1];
      const std::int64_t bytes = places[end - 1].end_bytes - places[begin].offset_bytes;
      const bool elsewhere = std::abs(when[begin - 1] - when[begin]) > kSameTime;
      if (bytes >= wanted || next.arena != places[begin].arena ||
          (elsewhere && 2 * bytes >= wanted))
        break;
    }
    buckets.push_back({begin, end});
    end = begin;
  }
  const auto completed = [&](const BucketRange& bucket) {
    return *std::max_element(when.begin() + static_cast<std::ptrdiff_t>(bucket.begin),
                             when.begin() + static_cast<std::ptrdiff_t>(bucket.end));
  };
  std::stable_sort(buckets.begin(), buckets.end(), [&](const BucketRange& a, const BucketRange& b) {
    return completed(a) < completed(b);
  });
  return buckets;
}

}  // namespace ringrad
