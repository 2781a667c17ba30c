// The behaviour that every backend must have, however its ranks run. All ranks of a group call
// these functions. The functions need a whole group and leave it whole: a test that breaks a group
// first splits one off. backend_values.h and backend_errors.h have the rest of them.

#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <thread>

#include "ringrad/tests/asleep.h"
#include "ringrad/tests/parallel/comm/backend_errors.h"
#include "ringrad/tests/parallel/comm/backend_values.h"
#include "ringrad/tests/parallel/comm/checked_collectives.h"
#include "ringrad/tests/testing.h"

namespace ringrad::testing {

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

/// All of the above tests that leave the group whole.
inline void run_backend_suite_with(const BackendTraits& traits, Communicator& comm) {
  expect_exact_collectives(comm);
  expect_any_place(comm);
  expect_identical_bits(comm, traits);
  expect_messages(comm);
  expect_messages_outlive_senders(comm);
  expect_split(comm);
  expect_overlap_refused(comm);
  expect_differences_named(comm, traits);
  expect_message_for_collective_named(comm);
  expect_wrong_message_refused(comm);
  expect_numbers_of_the_job(comm);
  expect_abort_told(comm, traits);
  expect_second_thread_refused(comm);
}
inline void run_backend_suite(Communicator& comm) { run_backend_suite_with({}, comm); }

}  // namespace ringrad::testing
