// A job over Gloo that no ringrun has started, so that rank 0 serves the store: rank 0 is killed or
// stopped, and the others must name it although they cannot ask each other.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ringrad/parallel/comm/network/gloo_group.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using std::chrono::milliseconds;

template <class Body>
std::string error_of(Body body) {
  try {
    body();
    return "no error";
  } catch (const CollectiveError& error) {
    return error.what();
  }
}

// What rank `rank` does. Returns what it has to say against the errors that it got.
std::string be_rank_without_ringrun(int rank, int signal) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", "3", 1);
  setenv("MASTER_PORT", std::to_string(20'000 + signal).c_str(), 1);  // tells the jobs apart
  setenv("TMPDIR", ::testing::TempDir().c_str(), 1);
  TransportOptions options;
  options.deadline = milliseconds(15'000);  // also of a barrier that must succeed
  options.verdict_time = milliseconds(2000);
  options.join_timeout = std::chrono::seconds(60);
  const auto comm = join_gloo_group(options);
  comm->barrier();
  if (rank == 0) raise(signal);
  const std::string error = error_of([&] { comm->barrier(); });
  if (comm->failed_rank() != 0 ||
      error.find("got no answer from rank 0, whose process serves the store") == error.npos)
    return error;
  const std::string no_shrink = error_of([&] { comm->shrink(); });
  return no_shrink.find(", in rank 0 of the job, must answer") == no_shrink.npos ? no_shrink : "";
}

TEST(GlooRankZeroTest, RankZeroIsNamedThoughTheStoreEndsWithIt) {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    std::vector<pid_t> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.push_back(fork());
      if (ranks.back() > 0) continue;
      std::string complaint;
      try {
        complaint = be_rank_without_ringrun(rank, signal);
      } catch (const std::exception& error) {
        complaint = error.what();
      }
      if (!complaint.empty()) std::fprintf(stderr, "rank %d: %s\n", rank, complaint.c_str());
      _exit(complaint.empty() ? 0 : 1);
    }
    for (const int rank : {1, 2, 0}) {
      int status = -1;
      if (rank == 0) kill(ranks[0], SIGKILL);
      EXPECT_EQ(waitpid(ranks[static_cast<std::size_t>(rank)], &status, 0),
                ranks[static_cast<std::size_t>(rank)]);
      EXPECT_TRUE(rank == 0 || status == 0) << "rank " << rank << ", signal " << signal;
    }
  }
}

}  // namespace
}  // namespace ringrad
