// A program that has threads and processes of its own, and uses Ringrad from them.

#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <thread>
#include <vector>

#include "ringrad/ringrad.h"

namespace {

// The weights after ten steps; the matrix is large enough for work on several threads.
std::vector<float> trained() {
  using namespace ringrad;
  nn::Linear net(512, 4);
  net.load_state_dict({{"weight", full({4, 512}, 0.01)}, {"bias", zeros({4})}});
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1});
  const Tensor x = reshape(arange(0.0, 1024.0 * 512.0) / (1024.0 * 512.0), {1024, 512});
  for (int step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    mean(square(net(x) - 1.0)).backward();
    optimizer.step();
  }
  return net.weight.to_vector<float>();
}

// Products may add in another order on other numbers of threads.
bool is_close(const std::vector<float>& actual, const std::vector<float>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (!(std::abs(actual[i] - expected[i]) < 1e-6F)) return false;
  return actual.size() == expected.size();
}

// A team of the host's, whose threads each train.
bool from_an_openmp_team(const std::vector<float>& expected) {
  int equal = 0, threads = 0;
#pragma omp parallel num_threads(2) reduction(+ : equal, threads)
  {
    threads += 1;
    equal += is_close(trained(), expected) ? 1 : 0;
  }
  return threads == 2 && equal == 2;
}

// Two parts of a program that know nothing of each other.
bool from_two_threads(const std::vector<float>& expected) {
  bool equal[2] = {};
  std::thread one([&] { equal[0] = is_close(trained(), expected); });
  std::thread other([&] { equal[1] = is_close(trained(), expected); });
  one.join();
  other.join();
  return equal[0] && equal[1];
}

// A worker that is forked after the library has used its threads. The host kills a worker that
// hangs: one that hangs within fork() could not set an alarm of its own.
bool from_a_forked_worker(const std::vector<float>& expected) {
  const pid_t worker = fork();
  if (worker == 0) _exit(is_close(trained(), expected) ? 0 : 1);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(worker, &status, WNOHANG)) == 0) {
    if (std::chrono::steady_clock::now() > deadline) kill(worker, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return ended == worker && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

int main() {
  const std::vector<float> expected = trained();
  std::printf("OpenMP team: %d\n", from_an_openmp_team(expected));
  std::printf("two threads: %d\n", from_two_threads(expected));
  std::printf("forked worker: %d\n", from_a_forked_worker(expected));
}
