#include "ringrad/parallel/comm/host/ranks.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "ringrad/core/trace.h"
#include "ringrad/parallel/comm/common/rethrow.h"

namespace ringrad {
namespace {

std::string message_of(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

// True for the error that a rank gets when another one has failed.
bool is_consequence(const std::exception_ptr& error) noexcept {
  return message_of(error).find(": the group must be whole; got a failure of ") !=
         std::string::npos;
}

// How the ranks ended.
struct Outcome {
  std::vector<std::exception_ptr> errors;  // (world_size)
  std::atomic<int> first_failed = -1;      // the rank that broke the group

  explicit Outcome(int world_size) : errors(world_size) {}

  void note(Communicator& comm, const std::exception_ptr& error) noexcept {
    comm.abort(message_of(error));
    errors[comm.rank()] = error;
    first_failed = comm.failed_rank();
  }

  // The cause before its consequences. The culprit may have caught its own error, or have been late
  // without one: then the rank that found that out tells the cause.
  void rethrow_cause(Where where) const {
    std::vector<int> ranks;
    if (first_failed >= 0) ranks.push_back(first_failed);
    for (int rank = 0; rank < static_cast<int>(errors.size()); ++rank) ranks.push_back(rank);
    std::stable_partition(ranks.begin(), ranks.end(),
                          [&](int rank) { return errors[rank] && !is_consequence(errors[rank]); });
    for (const int rank : ranks)
      if (errors[rank]) rethrow_of(concat("rank ", rank), errors[rank], where);
  }
};

}  // namespace

void run_on_threads(std::vector<std::unique_ptr<Communicator>> comms, int team,
                    const std::function<void(Communicator&)>& body, Where where) {
  Outcome outcome(comms.at(0)->world_size());
  const auto run_rank = [&](std::size_t i) {
    omp_set_num_threads(team);
    const std::unique_ptr<Communicator> comm = std::move(comms[i]);  // leaves when it returns
    const TraceThread name(comm->rank(), "compute");
    try {
      body(*comm);
    } catch (...) {
      outcome.note(*comm, std::current_exception());
    }
  };

  std::vector<std::thread> threads;
  threads.reserve(comms.size());
  try {
    while (threads.size() < comms.size()) threads.emplace_back(run_rank, threads.size());
  } catch (...) {  // no more threads, or memory: those that run must not wait for the rest
    outcome.note(*comms[threads.size()], std::current_exception());
  }
  for (std::thread& thread : threads) thread.join();
  outcome.rethrow_cause(where);
}

void run_ranks(int world_size, const std::function<void(Communicator&)>& body,
               const GroupOptions& options, Where where) {
  auto comms = make_thread_group(world_size, options, where);  // checks world_size
  const int team = std::max(1, omp_get_max_threads() / world_size);
  run_on_threads(std::move(comms), team, body, where);
}

}  // namespace ringrad
