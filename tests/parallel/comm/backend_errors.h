// The errors that ranks of every backend get, for backend_suite.h and for tests that break a group.

#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/fill.h"
#include "ringrad/tests/parallel/comm/backend_traits.h"
#include "ringrad/tests/parallel/comm/checked_collectives.h"
#include "ringrad/tests/parallel/comm/patience.h"
#include "ringrad/tests/testing.h"

namespace ringrad::testing {

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
  if (comm.world_size() > 2) {
    EXPECT_EQ(part->failed_rank(), 1);  // whoever noticed
  }
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

/// Rank 1 waits for a message of a rank that waits for it in a collective. No deadline is near.
inline void expect_message_for_collective_named(Communicator& comm) {
  if (comm.world_size() == 1) return;
  const auto part = comm.split(0);
  part->barrier();
  const std::string error =
      error_of([&] { comm.rank() == 1 ? part->recv(empty({8}), 0) : part->all_reduce(ones({8})); });
  expect_contains(error, "all ranks must make the same call; got ");
  expect_contains(error, concat("all_reduce(sum, float32, ", elements(8), ") on rank"));
  expect_contains(error, concat("recv(float32, ", elements(8), ", from 0) on rank 1"));
  if (comm.world_size() > 2) {
    EXPECT_EQ(part->failed_rank(), 1);
  }
  comm.barrier();
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

/// Output and input may overlap only where one is this rank's part of the other.
inline void expect_overlap_refused(Communicator& comm) {
  const int n = comm.world_size();
  const Tensor memory = ones({2 * n + 1}), whole = view::slice(memory, 0, 0, 2 * n);
  const Tensor crossing = view::slice(memory, 0, 1, 3),
               after = view::slice(memory, 0, 2 * n - 1, 2 * n + 1);
  constexpr const char* kRefusal = "output and input must not share memory";
  for (const Tensor& part : {crossing, after}) {
    expect_throws<ValueError>([&] { comm.reduce_scatter(part, whole); }, kRefusal);
    expect_throws<ValueError>([&] { comm.all_gather(whole, part); }, kRefusal);
  }
  const Tensor own = view::slice(memory, 0, 2 * comm.rank(), 2 * comm.rank() + 2);
  kernels::fill_(own, comm.rank() + 1);
  comm.all_gather(whole, own);
  std::vector<float> gathered;
  for (int r = 0; r < n; ++r) gathered.insert(gathered.end(), 2, static_cast<float>(r + 1));
  EXPECT_EQ(whole.to_vector<float>(), gathered);
  comm.reduce_scatter(own, whole);
  EXPECT_EQ(own.to_vector<float>(),
            std::vector<float>(2, static_cast<float>(n * (comm.rank() + 1))));
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
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
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
/// REQUIRES: a group with a deadline of kShortDeadline; the test breaks it
inline void expect_late_rank_named(Communicator& comm) {
  using Clock = std::chrono::steady_clock;
  const int last = comm.world_size() - 1;
  comm.barrier();
  const auto begin = Clock::now();
  if (comm.rank() == last)
    while (comm.failed_rank() < 0) std::this_thread::yield();
  const std::string error = error_of([&] { comm.all_reduce(ones({8})); });
  EXPECT_LT(Clock::now() - begin, kShortDeadline + kPatience);
  EXPECT_EQ(error.find("all_reduce(sum, float32, 8 elements) #"), 0U) << error;
  expect_contains(error, concat(" on rank ", comm.rank(), ": "));
  expect_contains(error, concat("every rank must arrive within ", kShortDeadline.count(),
                                " s; got no call from rank ", last));
}

}  // namespace ringrad::testing
