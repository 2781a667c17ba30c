#include "ringrad/kernels/spinning.h"

#include <fcntl.h>
#include <omp.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <latch>
#include <thread>
#include <utility>
#include <vector>

namespace ringrad::kernels {
namespace {

constexpr std::int64_t kInterval = 50'000'000;  // ns between two looks of a thread
constexpr std::int64_t kBusyShare = 10;         // busy: it waited for 1/10 of that time, or more
constexpr std::int64_t kCalm = 2'000'000'000;   // ns without such a look after which teams spin

// Read when the library is loaded, as libgomp does.
const int num_processors = omp_get_num_procs();

std::atomic<std::int64_t> last_busy = 0;  // when a thread last found the machine busy
std::atomic<bool> keeper_runs = false, keeps_team = false;

std::int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// The time, in ns, for which this thread could have run but had no processor: the second number of
// its schedstat. 0 if the system does not say.
std::int64_t time_without_processor() {
  const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[128];
  const ssize_t size = read(file, text, sizeof(text) - 1);
  close(file);
  if (size <= 0) return 0;
  text[size] = 0;
  char* second = nullptr;
  std::strtoll(text, &second, 10);
  return std::strtoll(second, nullptr, 10);
}

// libgomp ends the program if it cannot start a thread, so the system is asked first.
bool may_start(int count) {
  std::latch all_exist(1);
  std::vector<std::thread> threads;
  bool may = true;
  try {
    threads.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) threads.emplace_back([&] { all_exist.wait(); });
  } catch (const std::exception&) {
    may = false;
  }
  all_exist.count_down();
  for (std::thread& thread : threads) thread.join();
  return may;
}

// Holds the idle team until the machine has been calm for a while. The team's threads sleep, and
// end with this thread.
void keep_team() {
  const int size = num_processors + 1;
  if (may_start(size)) {
    omp_set_dynamic(0);
#pragma omp parallel num_threads(size)
    asm volatile("" ::: "memory");  // a region that the compiler does not remove
    keeps_team = true;
  }
  while (now() - last_busy < kCalm) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  keeps_team = false;
  keeper_runs = false;
}

void start_keeper() {
  // Signals are for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(keep_team).detach();
  } catch (const std::exception&) {
    keeper_runs = false;  // the next look tries again
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

struct Look {
  std::int64_t at = 0, waited = 0;
};

void look(Look& last, std::int64_t at) {
  const Look before = std::exchange(last, {at, time_without_processor()});
  const bool busy = before.at > 0 && (last.waited - before.waited) * kBusyShare >= at - before.at;
  if (!busy) return;
  last_busy = at;
  if (!keeper_runs.exchange(true)) start_keeper();
}

}  // namespace

bool spins_briefly() noexcept { return keeps_team; }

}  // namespace ringrad::kernels

void ringrad::watch_for_load() noexcept {
  using namespace kernels;
  static const bool user_decides = std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT");
  if (user_decides) return;
  thread_local Look last;
  if (const std::int64_t at = now(); at - last.at >= kInterval) look(last, at);
}
