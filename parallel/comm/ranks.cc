#include "parallel/comm/ranks.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/trace.h"
#include "parallel/comm/rethrow.h"

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

  // The cause before its consequences. The rank that broke the group may have caught its own error;
  // then any other will do.
  void rethrow_cause(Where where) const {
    if (first_failed >= 0 && errors[first_failed])
      rethrow_of(concat("rank ", first_failed), errors[first_failed], where);
    for (std::size_t rank = 0; rank < errors.size(); ++rank)
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
