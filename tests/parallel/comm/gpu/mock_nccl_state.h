// State that the ranks of the mock of NCCL share.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "ringrad/parallel/comm/gpu/nccl_library.h"
#include "ringrad/tests/parallel/comm/gpu/mock_nccl_compute.h"
#include "ringrad/tests/parallel/comm/gpu/mock_nccl_pool.h"

namespace ringrad::testing {

using nccl::Result;

// All ranks' calls with one number.
struct Launch {
  std::mutex mutex;
  int num_arrived = 0, num_left = 0;
  std::vector<std::vector<Part>> ranks;
  std::vector<std::uint64_t*> words;
};

// The ranks that joined with one id.
struct Clique {
  int world_size = 0;
  std::mutex mutex;
  int num_joined = 0;
  std::vector<int> devices;
  std::map<int, std::shared_ptr<Launch>> launches;
  std::atomic<Result> error = Result::success;
};

}  // namespace ringrad::testing

struct ringrad::nccl::Communicator {
  std::shared_ptr<ringrad::testing::Clique> clique;
  int rank = 0, device = 0;
  std::mutex mutex;
  int num_calls = 0, num_looks = 0;
  bool is_ready = false, is_finalized = false;
  std::vector<ringrad::testing::Call> deferred;  // reported as in progress
  std::vector<std::weak_ptr<ringrad::testing::Launch>> launches;
};

namespace ringrad::testing {

using nccl::Comm;

// State that all communicators of the process share. Never destroyed: threads may outlive main().
struct Mock {
  std::mutex mutex;
  std::condition_variable changed;
  MockNcclRuntime runtime{};
  MockNcclFaults faults;
  int num_configured = 0;
  std::map<std::string, std::weak_ptr<Clique>> cliques;
  std::set<Comm> live;
  int num_aborted = 0, num_broken_rules = 0, num_ids = 0;
  std::string rule;
  Pool pool;

  Result break_rule(const std::string& what, Result result = Result::invalid_usage) {
    const std::lock_guard lock(mutex);
    if (num_broken_rules++ == 0) rule = what;
    return result;
  }
  bool is_live(Comm comm) {
    const std::lock_guard lock(mutex);
    return live.count(comm) != 0;
  }
  MockNcclFaults current_faults() {
    const std::lock_guard lock(mutex);
    return faults;
  }
};

inline Mock& mock() {
  static Mock* const all = new Mock;
  return *all;
}

}  // namespace ringrad::testing
