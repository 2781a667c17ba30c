#include "benchmarks/collective_timing.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <stdexcept>

namespace ringrad::bench {
namespace {

constexpr double kBatchSeconds = 4e-3;
constexpr int kSamples = 15;
constexpr int kSpins = 4000;

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
    arrived.store(0, std::memory_order_relaxed);  // before the release below: nobody sees the old
    generation.store(mine + 1, std::memory_order_release);
    return;
  }
  for (int i = 0; generation.load(std::memory_order_acquire) == mine; ++i) {
    if (i > kSpins) sched_yield();
  }
}

std::optional<Timing> time_collective(RankBoard& board, int rank, int ranks,
                                      const std::function<void()>& call) {
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
    const double start = now_seconds();
    for (int i = 0; i < batch; ++i) call();
    entry.seconds = (now_seconds() - start) / batch;
    board.barrier(ranks);
    double slowest = 0;
    for (int i = 0; i < ranks; ++i) {
      slowest = std::max(slowest, board.entries[static_cast<size_t>(i)].seconds);
    }
    board.barrier(ranks);
    return slowest;
  };

  if (rank == 0) board.batch = 3;
  board.barrier(ranks);
  const double per_call = sample();
  if (rank == 0) board.batch = std::clamp(static_cast<int>(kBatchSeconds / per_call), 1, 5000);
  board.barrier(ranks);
  sample();

  std::optional<MachineWatch> watch;
  if (rank == 0) watch.emplace(1);
  const double cpu_before = post_cpu_seconds();
  std::vector<double> samples;
  for (int i = 0; i < kSamples; ++i) samples.push_back(sample());
  const double own = post_cpu_seconds() - cpu_before;
  if (!watch) return std::nullopt;
  return watch->judge(std::move(samples), own);
}

std::vector<std::size_t> all_reduce_sizes() {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 4; bytes <= (std::size_t{64} << 20); bytes *= 4) sizes.push_back(bytes);
  return sizes;
}

std::string all_reduce_name(std::size_t bytes) {
  return "allreduce/bytes:" + std::to_string(bytes);
}

void fill_for_sum(std::span<float> buffer, int rank) {
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    buffer[i] = static_cast<float>(rank + 1) * static_cast<float>(i % 64);
  }
}

void check_sum(std::span<float> buffer, int ranks) {
  const float factor = static_cast<float>(ranks * (ranks + 1)) / 2;  // 1 + 2 + ... + ranks
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    const float expected = factor * static_cast<float>(i % 64);
    if (buffer[i] != expected) {
      throw std::runtime_error("all_reduce: element " + std::to_string(i) + " must be " +
                               std::to_string(expected) + "; got " + std::to_string(buffer[i]));
    }
  }
  std::fill(buffer.begin(), buffer.end(), 0.0f);
}

}  // namespace ringrad::bench
