// collective_benchmark: all_reduce over ranks of one machine, from 4 B to 64 MiB, in place.
//
//   ranks     threads; processes, with tensors in the memory that they share; or copied: processes with
//             tensors elsewhere, which are copied there and back
//   size      bytes of each rank's tensor (float32, sum)
//   time      median over samples of the slowest rank's time per call, in microseconds
//   algbw     size / time, in GB/s
//   busbw     algbw * 2 (n - 1) / n: what a link carries, comparable between numbers of ranks
//   memcpy    GB/s at which every rank copies buffers of its own of that size, all at once
//   share     busbw / memcpy
//   wrong     elements that differ from the exact sum of whole numbers
//
// The clock runs over batches of calls on the same tensors, as in nccl-tests. Algorithms and the
// memcpy of one size are measured next to each other, since machines drift.

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/collective_timing.h"
#include "core/tensor.h"
#include "parallel/comm/process_group.h"
#include "parallel/comm/ranks.h"
#include "parallel/plan/algorithms.h"

namespace ringrad {
namespace {

using bench::RankBoard;
using bench::Timing;

// What rank 0 measures. Lies in memory that processes share.
struct Measured {
  Timing time;
  double memcpy_us = 0;
  std::int64_t wrong = 0;
};

struct Result : Measured {
  std::string transport, algorithm;
  int ranks = 0;
  std::int64_t bytes = 0;

  double algbw_gbps() const { return static_cast<double>(bytes) / time.us * 1e-3; }
  double busbw_gbps() const { return algbw_gbps() * 2 * (ranks - 1) / ranks; }
  double memcpy_gbps() const { return static_cast<double>(bytes) / memcpy_us * 1e-3; }
};

struct Settings {
  std::vector<int> ranks = {2, 4};
  std::vector<std::string> transports = {"threads", "processes", "copied"};
  std::vector<std::string> algorithms = {"ring", "two_shot"};
  std::int64_t min_bytes = 4, max_bytes = 64 << 20;
  int factor = 4, segments = 0;
  bool pin = true, tsv = false;
  std::string json;
};

// One processor per rank where there are enough; otherwise the system decides.
void pin_rank(int rank, int world_size) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < world_size)
    return;
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed) && seen++ == rank) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      sched_setaffinity(0, sizeof one, &one);
      return;
    }
}

// --- Measuring ---

// Elements that are wrong after one all_reduce, over all ranks.
std::int64_t count_wrong(Communicator& comm, const Tensor& x) {
  float* data = x.data<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i) data[i] = static_cast<float>(i % 100 + comm.rank());
  comm.all_reduce(x);
  const int n = comm.world_size();
  const Tensor wrong = zeros({1}, {.dtype = DType::int64});
  for (std::int64_t i = 0; i < x.numel(); ++i)
    *wrong.data<std::int64_t>() += data[i] != static_cast<float>(n * (i % 100) + n * (n - 1) / 2);
  comm.all_reduce(wrong);
  return wrong.item<std::int64_t>();
}

// Every rank calls this; rank 0 fills in the result.
void measure(Communicator& comm, RankBoard& board, const Tensor& x, Measured& result) {
  const Tensor y = zeros(x.shape());
  const std::int64_t bytes = x.numel() * 4, wrong = count_wrong(comm, x);
  std::memset(x.raw_data(), 0, bytes);  // so that repeated sums stay finite
  const auto time =
      time_collective(board, comm.rank(), comm.world_size(), [&] { comm.all_reduce(x); });
  const auto copy = time_collective(board, comm.rank(), comm.world_size(), [&] {
    std::memcpy(y.raw_data(), x.raw_data(), bytes);
    asm volatile("" : : "r"(y.raw_data()) : "memory");  // every copy is made
  });
  if (comm.rank() != 0) return;
  result = {*time, copy->us, wrong};
}

void measure_threads(const Settings& settings, Result& result) {
  RankBoard board;
  run_ranks(result.ranks,
            [&](Communicator& comm) {
              if (settings.pin) pin_rank(comm.rank(), result.ranks);
              measure(comm, board, empty({result.bytes / 4}), result);
            },
            {.all_reduce = result.algorithm, .segments = settings.segments});
}

// What the processes of one case have together.
struct SharedCase {
  RankBoard board;
  Measured measured;
};

[[noreturn]] void run_process(const Settings& settings, const Result& result, int rank,
                              const StoreAddress& address, SharedCase& shared) {
  try {
    if (settings.pin) pin_rank(rank, result.ranks);
    ProcessGroupOptions options;
    options.all_reduce = result.algorithm;
    options.segments = settings.segments;
    Store store(address);
    const auto comm = join_process_group(store, "benchmark", rank, result.ranks, options);
    const Shape shape{result.bytes / 4};
    measure(*comm, shared.board,
            result.transport == "copied" ? empty(shape) : comm->empty_shared(shape),
            shared.measured);
    comm->barrier();
    _exit(0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    _exit(1);
  }
}

void measure_processes(const Settings& settings, Result& result) {
  void* memory =
      mmap(nullptr, sizeof(SharedCase), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw OutOfMemoryError("collective_benchmark: no shared memory", Where::current());
  auto* shared = new (memory) SharedCase;
  const StoreServer server;
  for (int rank = 0; rank < result.ranks; ++rank)
    if (fork() == 0) run_process(settings, result, rank, server.address(), *shared);
  bool good = true;
  for (int rank = 0; rank < result.ranks; ++rank) {
    int status = 0;
    good = wait(&status) > 0 && status == 0 && good;
  }
  static_cast<Measured&>(result) = shared->measured;
  munmap(memory, sizeof(SharedCase));
  if (!good)
    throw CollectiveError("collective_benchmark: every rank must finish; got one that did not",
                          Where::current());
}

// --- Printing ---

void print_title() {
  std::printf("%10s %16s %18s %11s %8s %8s %8s %6s %6s\n", "size (B)", "ranks", "algorithm",
              "time (us)", "algbw", "busbw", "memcpy", "share", "wrong");
}

void print(const Result& r, bool tsv) {
  const auto bytes = static_cast<long long>(r.bytes);
  if (tsv)
    std::printf("ringrad\t%s@%s_%s\t%d\t%.5g\t%.1f\t%.5g\tGB/s\t%.0f\t%s\n",
                bench::all_reduce_name(r.bytes).c_str(), r.transport.c_str(), r.algorithm.c_str(),
                r.ranks, r.time.us, r.time.iqr_percent, r.algbw_gbps(), r.time.reference_gbps,
                r.time.busy ? "busy" : "-");
  else
    std::printf("%10lld %4d %11s %18s %11.2f %8.2f %8.2f %8.2f %5.0f%% %6lld%s\n", bytes, r.ranks,
                r.transport.c_str(), r.algorithm.c_str(), r.time.us, r.algbw_gbps(), r.busbw_gbps(),
                r.memcpy_gbps(), 100 * r.busbw_gbps() / r.memcpy_gbps(),
                static_cast<long long>(r.wrong), r.time.busy ? "  busy" : "");
  std::fflush(stdout);
}

void write_json(const std::string& path, const std::vector<Result>& results) {
  nlohmann::json list = nlohmann::json::array();
  for (const Result& r : results)
    list.push_back({{"collective", "all_reduce"},
                    {"transport", r.transport},
                    {"algorithm", r.algorithm},
                    {"ranks", r.ranks},
                    {"bytes", r.bytes},
                    {"dtype", "float32"},
                    {"op", "sum"},
                    {"time_us", r.time.us},
                    {"iqr_percent", r.time.iqr_percent},
                    {"busy", r.time.busy},
                    {"algbw_gbps", r.algbw_gbps()},
                    {"busbw_gbps", r.busbw_gbps()},
                    {"memcpy_gbps", r.memcpy_gbps()},
                    {"wrong", r.wrong}});
  std::ofstream out(path);
  out << list.dump(2) << '\n';
  if (!out)
    throw DataError("collective_benchmark: the JSON file must be writable; got " + path,
                    Where::current());
}

// --- The sweep ---

std::vector<Result> sweep(const Settings& settings) {
  std::vector<Result> results;
  for (int n : settings.ranks)
    for (std::int64_t bytes = settings.min_bytes; bytes <= settings.max_bytes;
         bytes *= settings.factor)
      for (const std::string& algorithm : settings.algorithms)
        for (const std::string& transport : settings.transports) {
          Result result;
          result.transport = transport;
          result.algorithm = algorithm;
          result.ranks = n;
          result.bytes = bytes;
          transport == "threads" ? measure_threads(settings, result)
                                 : measure_processes(settings, result);
          print(result, settings.tsv);
          results.push_back(result);
        }
  return results;
}

int run(int argc, char** argv) {
  Settings settings;
  CLI::App app("All-reduce over ranks of one machine: time, bandwidth, and correctness.");
  app.add_option("--transports", settings.transports, "what ranks are, as threads,processes,copied")
      ->delimiter(',')
      ->check(CLI::IsMember({"threads", "processes", "copied"}));
  app.add_option("--ranks", settings.ranks, "numbers of ranks, as 2,4")
      ->delimiter(',')
      ->check(CLI::Range(1, RankBoard::kMaxRanks));
  app.add_option("--algorithms", settings.algorithms, "plans of the all-reduce, as ring,two_shot")
      ->delimiter(',')
      ->check(CLI::IsMember(algorithm_names(Collective::all_reduce)));
  app.add_option("--min-bytes", settings.min_bytes)->check(CLI::Range(4, 1 << 30));
  app.add_option("--max-bytes", settings.max_bytes)->check(CLI::Range(4, 1 << 30));
  app.add_option("--factor", settings.factor, "from one size to the next")
      ->check(CLI::Range(2, 64));
  app.add_option("--segments", settings.segments, "0 chooses by size");
  app.add_flag("--pin,!--no-pin", settings.pin, "one processor per rank where there are enough");
  app.add_flag("--tsv", settings.tsv,
               "lines of tab-separated values, as benchmarks/cases.h defines them");
  app.add_option("--json", settings.json, "also write the results to this file");
  CLI11_PARSE(app, argc, argv);

  if (!settings.tsv) print_title();
  const std::vector<Result> results = sweep(settings);
  if (!settings.json.empty()) write_json(settings.json, results);
  return std::any_of(results.begin(), results.end(), [](const Result& r) { return r.wrong != 0; });
}

}  // namespace
}  // namespace ringrad

int main(int argc, char** argv) {
  try {
    return ringrad::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
