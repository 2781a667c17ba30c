// A busy machine: processes that only compute, several per processor, take turns with the training
// under test. The threads of its team wait for each other in every operator. What is compared is
// processor time, which other processes do not add to, with the processor time of the same training
// on one thread, which waits for nobody. Spinning made that 20 to 100 times as much. The time until
// the machine is found to be busy does not count: it is about a quarter of a second.

#include "ringrad/kernels/spinning.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using testing::Team;

// Processes that compute until they are killed.
class BusyProcesses {
 public:
  explicit BusyProcesses(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t process = fork();
      if (process != 0) {
        processes_.push_back(process);
        continue;
      }
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (volatile unsigned long n = 0;;) n = n + 1;
    }
  }
  ~BusyProcesses() {
    for (const pid_t process : processes_) {
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
  }
  BusyProcesses(const BusyProcesses&) = delete;
  BusyProcesses& operator=(const BusyProcesses&) = delete;

 private:
  std::vector<pid_t> processes_;
};

// Of all threads of this process, in seconds.
double processor_time() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Small enough that a step takes about a millisecond, and large enough that its operators are split
// over a team.
struct Training {
  nn::Sequential net{nn::Linear(64, 256), nn::ReLU(), nn::Linear(256, 64)};
  nn::SGD optimizer{net.parameters(), {.learning_rate = 1e-3}};
  Tensor x = randn({512, 64});

  void step() {
    optimizer.zero_grad();
    sum(net(x)).backward();
    optimizer.step();
  }
};

TEST(SpinningTest, ATeamOnABusyMachineTakesLittleMoreProcessorTimeThanOneThread) {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) unsetenv(name);
  const int num_processors = omp_get_num_procs();
  const BusyProcesses others(4 * num_processors);
  Training training;
  int steps = 0;
  double alone = 0;
  {
    const Team team(1);
    training.step();
    for (const double start = processor_time(); alone < 0.25; ++steps) {
      training.step();
      alone = processor_time() - start;
    }
  }
  const Team team(std::max(2, num_processors));
  const double begin = processor_time();
  while (!spins_briefly() && processor_time() - begin < 10) training.step();
  ASSERT_TRUE(spins_briefly());
  const double start = processor_time(), bound = 3 * alone;
  int done = 0;
  for (; done < steps && processor_time() - start < bound; ++done) training.step();
  const double together = processor_time() - start;
  EXPECT_EQ(done, steps) << "steps on one thread took " << alone << " s of processor time; "
                         << together << " s were over after " << done << " on a team";
  std::printf("%d steps: %.2f s of processor time on one thread, %.2f s on %d\n", steps, alone,
              together, omp_get_max_threads());
}

}  // namespace
}  // namespace ringrad::kernels
