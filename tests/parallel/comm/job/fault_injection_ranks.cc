// One rank of a job that fault_injection_ringrun_test.py disturbs: steps of two all_reduces, whose
// sums it checks.
//
//     fault_injection_ranks STEPS DEADLINE_MS
//
// Exits with 0 on success, with 3 after a failure (the error goes to stderr), and with 4 for a
// wrong sum. If the folder for flight records is given, the last step always ends in an error, so
// that the records are written.

#include <cstdio>
#include <cstdlib>

#include "ringrad/parallel/comm/host/process_group.h"
#include "ringrad/parallel/comm/record/fault_injection.h"

using namespace ringrad;

int main(int, char** argv) {
  const int num_steps = std::atoi(argv[1]);
  ProcessGroupOptions options;
  options.deadline = std::chrono::milliseconds(std::atoi(argv[2]));
  try {
    const auto comm = join_process_group(options);
    const Tensor x = comm->empty_shared({1000});
    for (int step = 1; step <= num_steps; ++step) {
      fault_step();
      for (int call = 0; call < 2; ++call) {
        for (int i = 0; i < 1000; ++i) x.data<float>()[i] = static_cast<float>(comm->rank() + i);
        comm->all_reduce(x);
        const int n = comm->world_size();
        for (int i = 0; i < 1000; ++i)
          if (x.data<float>()[i] != static_cast<float>(n * (n - 1) / 2 + n * i)) return 4;
      }
    }
    if (std::getenv("RINGRAD_FLIGHT_DIR")) {
      comm->barrier();  // all ranks have finished their steps
      comm->abort("the end");
      comm->barrier();
    }
    std::printf("done\n");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
