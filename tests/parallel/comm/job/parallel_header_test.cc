// ringrad/parallel.h alone is enough for ranks that are processes.

#include <gtest/gtest.h>

#include "ringrad/parallel.h"

namespace ringrad {
namespace {

TEST(ParallelHeaderTest, HasRanksThatAreProcesses) {
  const auto comm = join_process_group();  // the only rank, without a launcher
  EXPECT_EQ(comm->world_size(), 1);
}

}  // namespace
}  // namespace ringrad
