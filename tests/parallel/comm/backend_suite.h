// The behaviour that every backend must have, however its ranks run. All ranks of a group call
// these functions. The functions need a whole group and leave it whole: a test that breaks a group
// first splits one off.

#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/fill.h"
#include "ringrad/parallel/comm/common/reduce_terms.h"
#include "ringrad/tests/asleep.h"
#include "ringrad/tests/parallel/comm/checked_collectives.h"
#include "ringrad/tests/parallel/plan/collective/every_plan.h"
#include "ringrad/tests/testing.h"

namespace ringrad::testing {

inline constexpr ReduceOp kAllReduceOps[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::product,
                                             ReduceOp::min, ReduceOp::max};

inline bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce;
}

/// Differences between libraries that a backend may show.
struct BackendTraits {
  bool min_and_max_keep_nan = true;
  bool has_one_numbering = true;  ///< of all calls; else errors show that of a host
};

// --- Values ---

/// Every collective, dtype and operation. Sizes: zero elements, one, about the number of ranks, and
/// many kilobytes.
inline void expect_exact_collectives(Communicator& comm) {
  const int n = comm.world_size();
  for (const Collective collective : kAllCollectives) {
    for (const DType dtype : kAllDTypes)
      for (const ReduceOp op : kAllReduceOps)
        if (is_reducible(dtype, op) && (reduces(collective) || op == ReduceOp::max))
          expect_exact(comm, {collective, dtype, op, n / 2, kAmpleElements});
    for (const std::int64_t count : {0, 1, n - 1, n, 20'000})
      expect_exact(comm, {collective, DType::float32, ReduceOp::sum, n - 1, count});
  }
  comm.barrier();
}

/// Views that begin anywhere in their storage, and outputs that overlap the input.
inline void expect_any_place(Communicator& comm) {
  const int n = comm.world_size(), rank = comm.rank();
  for (const std::int64_t offset : {1, 3}) {
    const std::int64_t count = 5000 - offset;
    const Tensor whole = input_of(DType::float16, ReduceOp::sum, rank, 5000);
    const Tensor part = view::slice(whole, 0, offset, 5000);
    comm.all_reduce(part);
    expect_same_bits(part, reduced_tensor(DType::float16, ReduceOp::sum, n, count, offset));
    expect_same_bits(view::slice(whole, 0, 0, offset),
                     input_of(DType::float16, ReduceOp::sum, rank, offset));
  }
  const Tensor all = zeros({n, 100});
  const Tensor own = view::select(all, 0, rank);
  kernels::fill_(own, rank);
  comm.all_gather(all, own);
  for (int r = 0; r < n; ++r) expect_same_bits(view::select(all, 0, r), full({100}, r));
}

/// Numbers that reveal rounding and order, with NaNs, infinities and zeros of both signs among
/// them.
inline Tensor odd_values(DType dtype, int rank, std::int64_t count) {
  constexpr double kSpecial[] = {std::numeric_limits<double>::quiet_NaN(),
                                 std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity(), 0.0, -0.0};
  Random random(static_cast<std::uint64_t>(rank) + 1);
  return make_tensor(dtype, count, [&](std::int64_t i) {
    if (i % 7 == 0) return kSpecial[(i / 7 + rank) % 5];
    return random.real(-1, 1) * std::exp2(static_cast<double>(random.integer(-8, 8)));
  });
}

/// After an all_reduce all ranks hold the same bits, and a NaN has reached them all.
inline void expect_identical_bits(Communicator& comm, const BackendTraits& traits) {
  const int n = comm.world_size();
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16})
    for (const ReduceOp op : kAllReduceOps)
      for (const std::int64_t count : {50, 5000}) {
        const Tensor x = odd_values(dtype, comm.rank(), count);
        comm.all_reduce(x, op);
        const Tensor all = empty({n, count}, {.dtype = dtype});
        comm.all_gather(all, x);
        for (int r = 0; r < n; ++r) expect_same_bits(view::select(all, 0, r), x);
        if (!traits.min_and_max_keep_nan && (op == ReduceOp::min || op == ReduceOp::max)) continue;
        const auto values = x.to_vector<double>();
        for (int r = 0; r < n; ++r)  // where rank r had a NaN
          EXPECT_TRUE(std::isnan(values[static_cast<std::size_t>((5 - r % 5) % 5 * 7)]))
              << op << ' ' << dtype;
      }
}

/// Reductions add in rank order and round once, however the buffer is cut.
inline void expect_canonical_bits(Communicator& comm) {
  const int n = comm.world_size();
  for (const DType dtype : {DType::float32, DType::bfloat16})
    for (const std::int64_t count : {50, 5003}) {
      const Options carried{.dtype = carrier_dtype(dtype)};
      std::vector<Tensor> inputs;
      std::vector<const std::byte*> terms;
      for (int r = 0; r < n; ++r) {
        inputs.push_back(empty({count * n}, carried));
        to_carrier(dtype, odd_values(dtype, r, count * n).raw_data(), inputs.back().raw_data(),
                   count * n);
        terms.push_back(inputs.back().raw_data());
      }
      const Tensor sum = empty({count * n}, carried),
                   expected = empty({n, count}, {.dtype = dtype});
      std::byte* const sums[] = {sum.raw_data()};
      reduce_terms(carrier_dtype(dtype), ReduceOp::mean, terms, sums, count * n, n);
      from_carrier(dtype, sum.raw_data(), expected.raw_data(), count * n);

      const Tensor x = odd_values(dtype, comm.rank(), count * n),
                   part = empty({count}, {.dtype = dtype});
      comm.reduce_scatter(part, x, ReduceOp::mean);
      expect_same_bits(part, view::select(expected, 0, comm.rank()));
      const Tensor y = contiguous_copy(x);
      comm.reduce(y, n - 1, ReduceOp::mean);
      if (comm.rank() == n - 1) expect_same_bits(y, view::reshape(expected, {n * count}));
      comm.all_reduce(x, ReduceOp::mean);
      expect_same_bits(x, view::reshape(expected, {n * count}));
    }
}

// --- Messages ---

/// Messages arrive in order. They have every dtype, may be empty, are sent before any rank
/// receives, and may come between collectives.
inline void expect_messages(Communicator& comm) {
  const int n = comm.world_size(), rank = comm.rank();
  if (n == 1) return;
  const int right = (rank + 1) % n, left = (rank + n - 1) % n;
  for (const DType dtype : kAllDTypes) {
    const std::int64_t counts[] = {0, 7, 5000};
    for (const std::int64_t count : counts)
      comm.send(input_of(dtype, ReduceOp::max, rank, count), right);
    expect_exact(comm, {Collective::all_reduce, dtype, ReduceOp::max, 0, 9});
    for (const std::int64_t count : counts) {
      const Tensor x = empty({count}, {.dtype = dtype});
      comm.recv(x, left);
      expect_same_bits(x, input_of(dtype, ReduceOp::max, left, count));
    }
  }
  for (int k = 0; k < 20; ++k) {  // more messages than a channel holds
    const Tensor x = full({k}, k);
    if (rank == 0) comm.send(x, 1);
    if (rank == 1) {
      const Tensor y = zeros({k});
      comm.recv(y, 0);
      expect_same_bits(y, x);
    }
  }
  comm.barrier();
}

/// A message reaches its receiver even if its sender has left, whether or not the group has made a
/// collective before.
inline void expect_messages_outlive_senders(Communicator& comm) {
  constexpr std::int64_t kCount = 1 << 20;
  if (comm.world_size() == 1) return;
  for (const bool is_first : {true, false}) {
    auto part = comm.split(0);
    if (!is_first) part->all_reduce(ones({1}));
    if (comm.rank() == 0) {
      part->send(full({kCount}, 7), 1);
      part.reset();
    } else if (comm.rank() == 1) {
      const Tensor x = zeros({kCount});
      part->recv(x, 0);
      expect_same_bits(x, full({kCount}, 7));
    }
    comm.barrier();
  }
}

// --- Groups ---

/// Consecutive calls must pass different values of `first`.
inline void expect_sum_from(Communicator& comm, std::int64_t first) {
  for (const std::int64_t count : {1, 3000})
    expect_exact(comm, {Collective::all_reduce, DType::float32, ReduceOp::sum, 0, count, first});
}
inline void expect_sum_works(Communicator& comm) { expect_sum_from(comm, 0); }

/// Rows and columns of a grid, called in any order; groups of groups that outlive their parents;
/// and ranks that join no group.
inline void expect_split(Communicator& comm) {
  const int n = comm.world_size(), rank = comm.rank();
  const auto row = comm.split(rank / 2), column = comm.split(rank % 2, -rank);
  EXPECT_EQ(row->rank(), rank % 2);
  EXPECT_EQ(column->world_size(), rank % 2 == 0 ? (n + 1) / 2 : n / 2);
  EXPECT_EQ(column->rank(), column->world_size() - 1 - rank / 2);
  for (int round = 0; round < 4; ++round) {
    expect_sum_from(round % 2 == rank / 2 % 2 ? *row : *column, round);
    expect_sum_from(round % 2 == rank / 2 % 2 ? *column : *row, round);
  }
  std::thread other([&] {  // calls both groups at the same time
    for (int round = 0; round < 50; ++round) expect_sum_from(*column, round);
  });
  for (int round = 0; round < 50; ++round) expect_sum_from(*row, 100 + round);
  other.join();
  std::unique_ptr<Communicator> rest;
  {
    const auto all = comm.split(3);
    rest = all->split(rank == 0 ? -1 : 0);
  }
  EXPECT_EQ(rest == nullptr, rank == 0);
  if (rest) expect_sum_works(*rest);
  comm.barrier();
}

/// The ranks take turns being late, so that the others sleep. Meanwhile the group's counters wrap
/// around. All ranks run on this machine.
///
/// REQUIRES: first_count = kBeforeWrap
inline constexpr std::uint64_t kBeforeWrap = (std::uint64_t{1} << 32) - 30;
inline void expect_counters_wrap(Communicator& comm) {
  const int n = comm.world_size();
  const Tensor all = empty({n}, {.dtype = DType::int32});
  comm.all_gather(all, full({1}, gettid(), {.dtype = DType::int32}));
  const auto threads = all.to_vector<pid_t>();
  for (int call = 0; call < 60; ++call) {
    for (int r = 0; r < n && call % n == comm.rank(); ++r)
      if (r != comm.rank()) wait_until_asleep(threads[static_cast<std::size_t>(r)]);
    expect_exact(comm, {call % 2 ? Collective::all_reduce : Collective::all_gather, DType::int32,
                        ReduceOp::sum, 0, 100, call});
  }
}

// --- Failures ---

/// The message of the CollectiveError that the body throws.
template <class Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const CollectiveError& error) {
    return error.what();
  }
  return "no error";
}

inline void expect_contains(const std::string& text, std::string_view expected,
                            Where where = Where::current()) {
  EXPECT_NE(text.find(expected), std::string::npos)
      << to_string(where) << ": expected \"" << expected << "\" in: " << text;
}

/// `call` differs on rank 1, and every rank's error contains `expected`.
template <class Call>
void expect_difference(Communicator& comm, const BackendTraits& traits, Call call,
                       std::string_view expected) {
  const auto part = comm.split(0);
  part->barrier();
  const std::string error = error_of([&] { call(*part, comm.rank() == 1); });
  expect_contains(error,
                  concat(traits.has_one_numbering ? "#2" : "", " on rank ", comm.rank(), ": "));
  expect_contains(error, "all ranks must make the same call; got ");
  expect_contains(error, expected);
  EXPECT_GE(part->failed_rank(), 0);
  EXPECT_THROW(part->barrier(), CollectiveError);  // every later call also fails
  comm.barrier();
}

/// "8 elements" as error messages describe tensors on the default device.
inline std::string elements(int count) {
  return concat(count, " elements", default_device().is_cuda() ? " on cuda" : "");
}

/// The calls differ in operation, dtype, count, root or reduction.
inline void expect_differences_named(Communicator& comm, const BackendTraits& traits) {
  if (comm.world_size() == 1) return;
  const Tensor x = ones({8}), longer = ones({9}), whole = ones({8}, {.dtype = DType::int32});
  expect_difference(
      comm, traits, [&](auto& c, bool differs) { differs ? c.barrier() : c.all_reduce(x); },
      concat("all_reduce(sum, float32, ", elements(8), ") on rank"));
  expect_difference(
      comm, traits, [&](auto& c, bool differs) { differs ? c.broadcast(x) : c.all_reduce(x); },
      concat("broadcast(float32, ", elements(8), ", root 0) on rank 1"));
  expect_difference(
      comm, traits, [&](auto& c, bool differs) { c.all_reduce(differs ? whole : x); },
      concat("all_reduce(sum, int32, ", elements(8), ") on rank 1"));
  expect_difference(
      comm, traits, [&](auto& c, bool differs) { c.all_reduce(differs ? longer : x); },
      concat("all_reduce(sum, float32, ", elements(9), ") on rank 1"));
  expect_difference(
      comm, traits, [&](auto& c, bool differs) { c.reduce(x, differs ? 1 : 0); },
      concat("reduce(sum, float32, ", elements(8), ", root 1) on rank 1"));
  expect_difference(
      comm, traits,
      [&](auto& c, bool differs) { c.all_reduce(x, differs ? ReduceOp::max : ReduceOp::min); },
      concat("all_reduce(max, float32, ", elements(8), ") on rank 1"));
}

inline void expect_wrong_message_refused(Communicator& comm) {
  const int rank = comm.rank();
  const auto part = comm.split(rank / 2);
  if (part->world_size() == 2) {
    if (part->rank() == 0)
      part->send(ones({3}), 1);
    else
      expect_contains(error_of([&] { part->recv(empty({4}), 0); }),
                      concat("recv(float32, ", elements(4), ", from ", rank - 1, ") #1 on rank ",
                             rank, ": the message must be float32, 3 elements as sent by rank ",
                             rank - 1, "; got a tensor of float32, 4 elements"));
  }
  comm.barrier();
}

/// A subgroup names ranks by their numbers in the whole group, and so does a subgroup of it.
inline void expect_numbers_of_the_job(Communicator& comm) {
  const int rank = comm.rank(), last = comm.world_size() - 1;
  if (last < 2) return;
  const auto part = comm.split(rank == 0 ? -1 : 0, -rank);  // the last rank is its first
  if (rank > 0) {
    const auto pair = part->split(rank < last - 1 ? -1 : 0);
    if (pair) {
      EXPECT_EQ(pair->rank(), last - rank);
      const std::string error = error_of([&] { pair->all_reduce(ones({rank == last ? 9 : 8})); });
      expect_contains(error, concat(" on rank ", rank, ": "));
      expect_contains(error, "all ranks must make the same call; got ");
      expect_contains(error, concat(elements(9), ") on rank ", last, " and "));
      expect_contains(error, concat(elements(8), ") on rank ", last - 1));
    }
  }
  comm.barrier();
}

/// An abort ends calls that are waiting, and all later calls.
inline void expect_abort_told(Communicator& comm, const BackendTraits& traits) {
  const auto part = comm.split(0);
  comm.barrier();  // every rank has its part
  const auto begin = std::chrono::steady_clock::now();
  if (comm.rank() == 0)
    part->abort("enough");
  else
    expect_contains(error_of([&] { part->barrier(); }),
                    concat(traits.has_one_numbering ? "barrier() #1" : "", " on rank ", comm.rank(),
                           ": the group must be whole; got a failure of rank 0: enough"));
  expect_contains(error_of([&] { part->all_reduce(ones({8})); }),
                  "the group must be whole; got a failure of rank 0: enough");
  EXPECT_EQ(part->failed_rank(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  expect_sum_works(comm);
}

/// Two threads make this call on one communicator; one of them is refused.
template <class Call>
void expect_second_call_refused(Communicator& comm, std::string_view name, Call make_call) {
  const auto part = comm.split(0);
  if (comm.world_size() == 1) return;
  if (comm.rank() != 0) {
    comm.barrier();  // only after the refusal; until then the first thread's call waits
    make_call(*part);
    return;
  }
  std::atomic<int> num_refused{0};
  const auto call = [&] {
    const std::string error = error_of([&] { make_call(*part); });
    if (error == "no error") return;
    expect_contains(error,
                    concat(name,
                           ": a communicator serves one thread at a time; got a second call on "
                           "rank 0 while another is running"));
    ++num_refused;
    num_refused.notify_one();
  };
  std::thread first(call), second(call);
  num_refused.wait(0);
  comm.barrier();
  first.join();
  second.join();
  EXPECT_EQ(num_refused.load(), 1);
}

inline void expect_second_thread_refused(Communicator& comm) {
  expect_second_call_refused(comm, "barrier", [](Communicator& part) { part.barrier(); });
  expect_second_call_refused(comm, "split", [](Communicator& part) { part.split(0); });
}

/// The last rank calls only after the others have left, and is named.
///
/// REQUIRES: a group with a deadline of deadline_s seconds; the test breaks it
inline void expect_late_rank_named(Communicator& comm, double deadline_s) {
  using Clock = std::chrono::steady_clock;
  const int last = comm.world_size() - 1;
  comm.barrier();
  const auto begin = Clock::now();
  if (comm.rank() == last)
    while (comm.failed_rank() < 0) std::this_thread::yield();
  const std::string error = error_of([&] { comm.all_reduce(ones({8})); });
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), deadline_s + 1);
  EXPECT_EQ(error.find("all_reduce(sum, float32, 8 elements) #"), 0U) << error;
  expect_contains(error, concat(" on rank ", comm.rank(), ": "));
  expect_contains(error, concat("every rank must arrive within ", deadline_s,
                                " s; got no call from rank ", last));
}

/// All of the above tests that leave the group whole.
inline void run_backend_suite_with(const BackendTraits& traits, Communicator& comm) {
  expect_exact_collectives(comm);
  expect_any_place(comm);
  expect_identical_bits(comm, traits);
  expect_messages(comm);
  expect_messages_outlive_senders(comm);
  expect_split(comm);
  expect_differences_named(comm, traits);
  expect_wrong_message_refused(comm);
  expect_numbers_of_the_job(comm);
  expect_abort_told(comm, traits);
  expect_second_thread_refused(comm);
}
inline void run_backend_suite(Communicator& comm) { run_backend_suite_with({}, comm); }

}  // namespace ringrad::testing
