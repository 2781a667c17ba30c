// One rank of a job that ringrun has not started, for job_store_test.py: the ranks meet in the
// job's store, and each checks that it has met only ranks of its own job.
//
//     job_store_ranks JOB STAY_MS      prints "met" after the meeting, and exits STAY_MS ms later
//
// Exits with 3 and a reason on stderr if it meets a rank of another job, or no rank at all.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "ringrad/parallel/comm/job/job_store.h"
#include "ringrad/parallel/comm/store/rank_environment.h"

using namespace ringrad;

int main(int, char** argv) {
  try {
    const std::string own = argv[1];
    const RankEnvironment job = rank_environment();
    Store store = job_store(job, std::chrono::seconds(30));
    RINGRAD_CHECK(store.add(concat("claims/", job.rank), 1) == 1, CollectiveError, Where::current(),
                  "each rank must be one process; got a second rank ", job.rank);
    store.set(concat("job/", job.rank), own);
    for (int r = 0; r < job.world_size; ++r) {
      const std::string other = store.get(concat("job/", r));
      RINGRAD_CHECK(other == own, CollectiveError, Where::current(), "rank ", r, " must be of job ",
                    own, "; got job ", other);
    }
    std::printf("met\n");
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(argv[2])));
    // Rank 0 serves the store until all have met.
    if (store.add("met", 1) == job.world_size) store.set("all", "");
    if (job.rank == 0) store.get("all");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
