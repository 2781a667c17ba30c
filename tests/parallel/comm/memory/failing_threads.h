// Groups of threads that fail: their errors, and that a new group works afterwards.

#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "ringrad/core/make_tensor.h"
#include "ringrad/parallel/comm/host/ranks.h"

namespace ringrad::testing {

inline void expect_a_new_group_works(int n) {
  run_ranks(n, [&](Communicator& comm) {
    const Tensor x = full({10}, comm.rank());
    comm.all_reduce(x);
    EXPECT_EQ(x.to_vector<int>(), std::vector<int>(10, n * (n - 1) / 2));
  });
}

// The error that each rank's own call threw; "" for a rank that finished.
inline std::vector<std::string> errors_of(int n, const std::function<void(Communicator&)>& body,
                                          const GroupOptions& options = {}) {
  std::vector<std::string> errors(n);
  run_ranks(
      n,
      [&](Communicator& comm) {
        try {
          body(comm);
        } catch (const CollectiveError& e) {
          errors[comm.rank()] = e.what();
        }
      },
      options);
  return errors;
}

}  // namespace ringrad::testing
