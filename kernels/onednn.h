// oneDNN: how the kernels call it.
//
// Making a primitive takes microseconds to milliseconds (it may compile code); running one takes a
// fraction of a microsecond plus its work. So a kernel makes a `Plan` per combination of shapes,
// strides and options, keeps it, and later only points the plan's memory objects at the tensors of
// the call:
//
//     Plan& plan = find_or_make_plan(key, "matmul", where, [&] { return make_plan(...); });
//     plan.run({{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, out}}, ...);
//
// Plans belong to one thread: a memory object's pointer cannot serve two calls at once. They also
// belong to a number of threads: oneDNN shares the work out when it makes a primitive, and leaves
// rows unwritten if fewer threads come to run it.

#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/shape.h"

namespace ringrad::kernels::onednn {

/// The CPU engine, shared by all threads.
const dnnl::engine& engine();

/// Float32 memory of this shape, its axes ordered and spaced by the strides.
dnnl::memory::desc describe(std::span<const std::int64_t> extents,
                            std::span<const std::int64_t> strides);

/// Float32 memory of this shape in an order of oneDNN's choice, or in a named order.
dnnl::memory::desc describe(std::span<const std::int64_t> extents, dnnl::memory::format_tag order);

/// Throws OutOfMemoryError, or InternalError with oneDNN's message, for a status that oneDNN threw.
[[noreturn]] void rethrow(const dnnl::error& error, const char* operation, Where where);

/// How many threads a parallel region of the calling thread gets now.
int team_size();

/// While it lives, oneDNN finds exactly `threads` threads on the calling thread.
///
/// REQUIRES: 1 <= threads <= team_size()
class FixedTeam {
 public:
  explicit FixedTeam(int threads);
  ~FixedTeam();
  FixedTeam(const FixedTeam&) = delete;
  FixedTeam& operator=(const FixedTeam&) = delete;

 private:
  int max_threads_before_;
  bool dynamic_before_;
};

/// What a plan depends on, as a list of numbers; at most 32 of them.
class PlanKey {
 public:
  PlanKey(std::initializer_list<std::int64_t> numbers) { add({numbers.begin(), numbers.size()}); }

  PlanKey& add(std::span<const std::int64_t> numbers) {
    for (const std::int64_t number : numbers) add(number);
    return *this;
  }
  PlanKey& add(std::int64_t number) {
    RINGRAD_ASSERT(size_ < numbers_.size());
    numbers_[size_++] = number;
    hash_ = (hash_ ^ static_cast<std::uint64_t>(number)) * 0x9E3779B97F4A7C15u;  // 2^64 / phi
    hash_ ^= hash_ >> 32;
    return *this;
  }

  std::span<const std::int64_t> numbers() const { return {numbers_.data(), size_}; }
  bool operator==(const PlanKey& other) const {
    return hash_ == other.hash_ && std::ranges::equal(numbers(), other.numbers());
  }

  struct Hash {
    std::size_t operator()(const PlanKey& key) const { return key.hash_; }
  };

 private:
  std::array<std::int64_t, 32> numbers_;
  std::size_t size_ = 0;
  std::uint64_t hash_ = 0;
};

/// A primitive with its memory objects. Moves, does not copy.
class Plan {
 public:
  /// One description per argument; an empty one (`memory::desc()`) leaves an optional argument out.
  Plan(dnnl::primitive primitive,
       std::initializer_list<std::pair<int, dnnl::memory::desc>> descriptions);

  struct Argument {
    int index;         ///< DNNL_ARG_...
    const void* data;  ///< outputs are passed as const, too: oneDNN's memory objects do not say
  };

  /// Runs on the calling thread and its team, which must be the one it was made for, as
  /// find_or_make_plan sees to; the results are there on return.
  void run(std::initializer_list<Argument> arguments, const char* operation, Where where);

 private:
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> memories_;
  int threads_;
};

/// This thread's plan for `key` and team_size(), made by `make` at the first call. Each kernel has a
/// cache of its own, since the type of its `make` is; a cache that holds 1024 plans is emptied, so
/// that a program whose shapes never repeat does not grow.
template <class Make>
auto& find_or_make_plan(PlanKey key, const char* operation, Where where, Make&& make) {
  thread_local std::unordered_map<PlanKey, decltype(make()), PlanKey::Hash> plans;
  const int threads = team_size();
  key.add(threads);
  if (const auto found = plans.find(key); found != plans.end()) return found->second;
  if (plans.size() >= 1024) plans.clear();
  const FixedTeam team(threads);
  try {
    return plans.emplace(key, make()).first->second;
  } catch (const dnnl::error& error) {
    rethrow(error, operation, where);
  }
}

}  // namespace ringrad::kernels::onednn
