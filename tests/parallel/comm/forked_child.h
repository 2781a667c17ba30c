// What a forked child of a rank may do with the rank's communicator: nothing.

#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "ringrad/tests/parallel/comm/backend_errors.h"

namespace ringrad::testing {

/// A forked child gets an error from its copy, and the parent's group goes on.
///
/// REQUIRES: ranks are processes
inline void expect_forked_child_refused(Communicator& comm) {
  constexpr const char* kRefusal =
      ": a communicator serves the process that made it; got a call in a forked child";
  const Tensor x = ones({8}), own = ones({8});
  if (comm.rank() == 1) {
    const pid_t child = fork();
    if (child == 0) {
      expect_contains(error_of([&] { comm.all_reduce(x); }), concat("all_reduce", kRefusal));
      expect_contains(error_of([&] { comm.split(0); }), concat("split", kRefusal));
      comm.abort("enough");
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  comm.all_reduce(own);
  EXPECT_EQ(own.to_vector<float>(), std::vector<float>(8, static_cast<float>(comm.world_size())));
  EXPECT_EQ(comm.failed_rank(), -1);
}

}  // namespace ringrad::testing
