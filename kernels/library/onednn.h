// oneDNN: how the kernels call it.
//
// Making a primitive takes microseconds to milliseconds, since oneDNN may compile code; running one
// takes a fraction of a microsecond plus its work. So a kernel makes and keeps one `Plan` per
// combination of shapes, strides and options. Later calls only point the plan's memory objects at
// their tensors:
//
//     Plan& plan = find_or_make_plan(key, "matmul", where, [&] { return make_plan(...); });
//     plan.run({{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, out}}, ...);
//
// A plan belongs to one thread, because a memory object's pointer cannot serve two calls at once.
// It also belongs to a number of threads: oneDNN splits the work when it makes a primitive, and
// leaves rows unwritten if fewer threads run it.

#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <unordered_map>
#include <utility>

#include "ringrad/core/base/error.h"

namespace ringrad::kernels::onednn {

/// The CPU engine, shared by all threads.
const dnnl::engine& engine();

/// Float32 memory of this shape, with the order and spacing of axes given by the strides.
dnnl::memory::desc describe(std::span<const std::int64_t> extents,
                            std::span<const std::int64_t> strides);

/// Float32 memory of this shape, in an order that oneDNN chooses or in a named order.
dnnl::memory::desc describe(std::span<const std::int64_t> extents, dnnl::memory::format_tag order);

/// The descriptor of a primitive. In oneDNN 2 the arguments make a desc, which oneDNN 3 lacks.
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc operation(const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR < 3
  return {typename Primitive::desc(arguments...), engine()};
#else
  return {engine(), arguments...};
#endif
}

/// The same for a gradient, which is told the forward pass.
template <class Primitive, class Forward, class... Arguments>
typename Primitive::primitive_desc gradient_of(const Forward& forward,
                                               const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR < 3
  return {typename Primitive::desc(arguments...), engine(), forward};
#else
  return {engine(), arguments..., forward};
#endif
}

/// Throws OutOfMemoryError, or InternalError with oneDNN's message, for a status that oneDNN threw.
[[noreturn]] void rethrow(const dnnl::error& error, const char* operation, Where where);

/// Number of threads that a parallel region of the calling thread gets now.
int team_size();

/// While it exists, oneDNN calls from the constructing thread use exactly `threads` threads.
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

/// The numbers that a plan depends on, at most 32.
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

/// A primitive with its memory objects. Move-only.
class Plan {
 public:
  /// One description per argument; an empty one (`memory::desc()`) leaves an optional argument out.
  Plan(dnnl::primitive primitive,
       std::initializer_list<std::pair<int, dnnl::memory::desc>> descriptions);

  struct Argument {
    int index;         ///< DNNL_ARG_...
    const void* data;  ///< const even for outputs: memory objects do not tell them apart
  };

  /// Runs on the calling thread and its team, which must be the team that the plan was made for;
  /// find_or_make_plan ensures this. The results are ready on return.
  void run(std::initializer_list<Argument> arguments, const char* operation, Where where);

 private:
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> memories_;
  int threads_;
};

/// This thread's plan for `key` and team_size(), made by `make` at the first call. Each kernel has
/// its own cache, because its `make` has its own type. A cache that reaches 1024 plans is emptied,
/// so that a program whose shapes never repeat does not grow.
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
