#include "ringrad/benchmarks/collective_timing.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace ringrad::bench {
namespace {

constexpr int kSpins = 4000;
constexpr double kDeadlineSeconds = 60;

// CPU seconds of the distinct processes on the board: ranks that are threads share one.
double cpu_seconds(const RankBoard& board, int ranks) {
  std::map<pid_t, double> by_process;
  for (int rank = 0; rank < ranks; ++rank) {
    const RankBoard::Entry& entry = board.entries[static_cast<size_t>(rank)];
    by_process[entry.process] = entry.cpu_seconds;
  }
  double sum = 0;
  for (const auto& [process, seconds] : by_process) sum += seconds;
  return sum;
}

}  // namespace

void RankBoard::barrier(int ranks) {
  const int mine = generation.load(std::memory_order_acquire);
  if (arrived.fetch_add(1, std::memory_order_acq_rel) == ranks - 1) {
    arrived.store(0, std::memory_order_relaxed);  // reset before the release, for the next barrier
    generation.store(mine + 1, std::memory_order_release);
    return;
  }
  const double end = now_seconds() + kDeadlineSeconds;
  for (int i = 0; generation.load(std::memory_order_acquire) == mine; ++i) {
    if (i < kSpins) continue;
    sched_yield();
    if (broken.load(std::memory_order_relaxed)) throw std::runtime_error("another rank has failed");
    if (i % 64 == 0 && now_seconds() > end) {
      broken = true;
      throw std::runtime_error("all ranks must come to a barrier within a minute; got " +
                               std::to_string(arrived.load()) + " of " + std::to_string(ranks));
    }
  }
}

void pin_rank(int rank, int ranks) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < ranks) return;
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed) && seen++ == rank) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      sched_setaffinity(0, sizeof one, &one);
      return;
    }
}

std::optional<Timing> time_collective(RankBoard& board, int rank, int ranks, const TimingPlan& plan,
                                      const std::function<double(int calls)>& run_batch) {
  RankBoard::Entry& entry = board.entries[static_cast<size_t>(rank)];
  const auto post_cpu_seconds = [&] {
    entry.cpu_seconds = process_cpu_seconds();
    entry.process = getpid();
    board.barrier(ranks);
    const double sum = cpu_seconds(board, ranks);
    board.barrier(ranks);
    return sum;
  };
  const auto sample = [&] {
    const int batch = board.batch;
    board.barrier(ranks);
    entry.seconds = run_batch(batch) / batch;
    board.barrier(ranks);
    double slowest = 0;
    for (int i = 0; i < ranks; ++i) {
      slowest = std::max(slowest, board.entries[static_cast<size_t>(i)].seconds);
    }
    board.barrier(ranks);
    return slowest;
  };

  if (rank == 0) board.batch = std::min(3, plan.most_calls);
  board.barrier(ranks);
  const double per_call = std::max(sample(), 1e-9);
  if (rank == 0)
    board.batch = std::clamp(static_cast<int>(plan.batch_seconds / per_call), 1, plan.most_calls);
  board.barrier(ranks);
  if (plan.samples > 1) sample();

  std::optional<MachineWatch> watch;
  if (rank == 0) watch.emplace(1);
  const double cpu_before = post_cpu_seconds();
  std::vector<double> samples;
  for (int i = 0; i < plan.samples; ++i) samples.push_back(sample());
  const double own = post_cpu_seconds() - cpu_before;
  if (!watch) return std::nullopt;
  return watch->judge(std::move(samples), own);
}

}  // namespace ringrad::bench
