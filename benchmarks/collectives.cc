// collectives: the time and correctness of collectives by backend, algorithm, number of ranks and
// size, in the format of nccl-tests. The same run can measure OpenMPI, Gloo and the limits of the
// machine.
//
//   collectives                                      all_reduce, threads/processes, 4 B to 64 MiB
//   collectives --peers --rounds 3                   with OpenMPI, Gloo, memcpy, ratios and goals
//   collectives --collectives all --algorithms all   every plan of every collective
//   collectives --backends gpus,device_copy --ranks 8 --algorithms ring
//               --min-size 1MiB --max-size 1MiB
//
// collective_case.h explains the columns, collective_report.h the ratios. A time is the median over
// samples of the slowest rank's time per call. As in nccl-tests, the clock runs over batches of
// calls on the same tensors, including the wait for GPUs. Machines drift, so all measurements of
// one size run next to each other, in several rounds and in turn, each case in its own processes.
// Times of simulated GPUs come from the simulator's clock: they show the order and overlap of a
// plan, not the speed of a GPU.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "ringrad/benchmarks/collective_backends.h"
#include "ringrad/benchmarks/collective_case.h"
#include "ringrad/benchmarks/collective_launch.h"
#include "ringrad/benchmarks/collective_report.h"
#include "ringrad/benchmarks/peers/gloo_collectives.h"
#include "ringrad/core/file/atomic_file.h"
#include "ringrad/core/untrusted/options.h"

namespace ringrad::bench {
namespace {

using Names = std::vector<std::string>;

struct Settings {
  CollectiveCase common;  // the settings that all cases share
  Names collectives = {"all_reduce"}, backends = {"threads", "processes"}, algorithms = {"default"};
  std::vector<int> ranks = {2};
  std::int64_t min_size = 4, max_size = 64 << 20;
  std::vector<std::int64_t> sizes;  // if given, replace the range
  int factor = 4, rounds = 1;
  double deadline = 300;
  bool has_peers = false;
  std::string json, dtype = "float32", op = "sum", transfers = "automatic";
};

[[noreturn]] void refuse(const std::string& message) { throw CLI::ValidationError(message, 2); }

template <class Values, class Name>
auto named(const Values& values, const std::string& what, const std::string& wanted, Name name_of) {
  std::string all;
  for (const auto& value : values) {
    if (name_of(value) == wanted) return value;
    all += " " + std::string(name_of(value));
  }
  refuse(what + ": must be one of" + all + "; got " + wanted);
}

std::vector<Routine> all_routines() {
  std::vector<Routine> routines;
  for (int i = 0; i < kNumRoutines; ++i) routines.push_back(static_cast<Routine>(i));
  return routines;
}

DType dtype_named(const std::string& wanted) {
  std::vector<DType> dtypes;
  for (int i = 0; i < kNumDTypes; ++i) dtypes.push_back(static_cast<DType>(i));
  return named(dtypes, "--dtype", wanted, [](DType dtype) { return name(dtype); });
}

ReduceOp op_named(const std::string& wanted) {
  const auto ops = {ReduceOp::sum, ReduceOp::mean, ReduceOp::product, ReduceOp::min, ReduceOp::max};
  return named(std::vector<ReduceOp>(ops), "--op", wanted,
               [](ReduceOp op) { return std::string(name(op)); });
}

// --- What to run ---

bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The requested algorithms that the backend has, in the requested order; a backend without a choice
// runs as it is.
Names chosen_algorithms(const Settings& settings, const Backend& backend, Routine routine) {
  const Names known = algorithms_of(backend, routine);
  if (!backend.has_plans || routine == Routine::send_recv) return known;
  Names chosen;
  for (const std::string& wanted : settings.algorithms)
    for (const std::string& algorithm : known)
      if (algorithm == wanted || (wanted == "all" && algorithm != "default"))
        if (!contains(chosen, algorithm)) chosen.push_back(algorithm);
  return chosen;
}

std::vector<CollectiveCase> cases_of_size(const Settings& settings, Routine routine, int ranks,
                                          std::int64_t bytes) {
  std::vector<CollectiveCase> cases;
  for (const std::string& backend_name : settings.backends) {
    const Backend& backend = backend_named(backend_name);
    for (const std::string& algorithm : chosen_algorithms(settings, backend, routine)) {
      CollectiveCase one = settings.common;
      one.routine = routine;
      one.ranks = ranks;
      one.set_size(bytes);
      set_name(one.backend, backend_name);
      set_name(one.algorithm, algorithm);
      if (backend_name != "gloo_itself" || gloo_has(one)) cases.push_back(one);
    }
  }
  return cases;
}

void check_algorithms(const Settings& settings, const std::vector<Routine>& routines) {
  Names known = {"all"};
  for (const std::string& backend : settings.backends)
    for (const Routine routine : routines)
      if (backend_named(backend).has_plans)
        for (const std::string& algorithm : algorithms_of(backend_named(backend), routine))
          if (!contains(known, algorithm)) known.push_back(algorithm);
  if (known.size() == 1) known.emplace_back("default");
  for (const std::string& algorithm : settings.algorithms)
    named(known, "--algorithms", algorithm, [](const std::string& one) { return one; });
}

std::vector<Routine> check(Settings& settings) {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMIX_RANK"))
    refuse("collectives: starts mpirun by itself, and must not be started by it");
  CollectiveCase& common = settings.common;
  common.dtype = dtype_named(settings.dtype);
  common.op = op_named(settings.op);
  common.transfers =
      named(device_transfers(), "--transfers", settings.transfers, [](const auto& one) {
        return one.first;
      }).second;
  std::vector<Routine> routines;
  for (const std::string& wanted : settings.collectives) {
    if (wanted == "all")
      routines = all_routines();
    else
      routines.push_back(named(all_routines(), "--collectives", wanted,
                               [](Routine one) { return std::string(name(one)); }));
  }
  if (settings.has_peers)
    for (const char* backend :
         {"threads", "processes", "copied", "openmpi", "gloo_itself", "memcpy"})
      if (!contains(settings.backends, backend)) settings.backends.emplace_back(backend);
  for (const std::string& backend : settings.backends)
    if (named(backends(), "--backends", backend,
              [](const Backend& one) {
                return std::string(one.name);
              }).kind == Backend::Kind::peer &&
        (common.dtype != DType::float32 || common.op != ReduceOp::sum))
      refuse("--backends: " + backend + " must be measured with float32 and sum; got " +
             settings.dtype + " and " + settings.op);
  check_algorithms(settings, routines);
  if (std::any_of(routines.begin(), routines.end(), is_reduction)) {
    if (common.op == ReduceOp::sum && common.dtype == DType::bool_)
      refuse("--op: sum must have numbers; got --dtype bool");
    if (common.op == ReduceOp::mean && !is_floating(common.dtype))
      refuse("--op: mean must have a floating dtype; got --dtype " + settings.dtype);
  }
  for (const int n : settings.ranks)
    if (std::any_of(routines.begin(), routines.end(), is_rooted) && common.root >= n)
      refuse("--root: must be one of " + std::to_string(n) + " ranks; got " +
             std::to_string(common.root));
  if (settings.min_size > settings.max_size)
    refuse("--min-size: must be at most --max-size; got " + std::to_string(settings.min_size) +
           " and " + std::to_string(settings.max_size));
  if (!settings.json.empty() && !option::may_be_written(settings.json))
    refuse("--json: the file must be writable; got " + settings.json);
  return routines;
}

// --- The sweep ---

// All cases of one size, round by round. Every other round runs in reverse, so that no case always
// runs first. A case that fails is reported and left out.
std::vector<Row> measure_size(const Settings& settings, const std::vector<CollectiveCase>& cases) {
  std::vector<Row> rows;
  for (const CollectiveCase& one : cases) rows.push_back({one, {}});
  for (int round = 0; round < settings.rounds; ++round) {
    if (round > 0) std::reverse(rows.begin(), rows.end());
    for (Row& row : rows) {
      try {
        row.rounds.push_back(run_case(row.one, settings.deadline));
      } catch (const CollectiveError& error) {
        std::fprintf(stderr, "%s\n", error.what());
      }
    }
    std::erase_if(rows, [&](const Row& row) { return std::ssize(row.rounds) != round + 1; });
  }
  if (settings.rounds % 2 == 0) std::reverse(rows.begin(), rows.end());
  return rows;
}

std::vector<std::int64_t> sizes_of(const Settings& settings) {
  if (!settings.sizes.empty()) return settings.sizes;
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = settings.min_size; size <= settings.max_size; size *= settings.factor)
    sizes.push_back(size);
  return sizes;
}

std::vector<Row> sweep(const Settings& settings, const std::vector<Routine>& routines,
                       bool& failed) {
  std::vector<Row> rows;
  for (const Routine routine : routines) {
    std::printf("# %s\n", name(routine));
    print_title();
    for (const int ranks : settings.ranks)
      for (const std::int64_t size : sizes_of(settings)) {
        const auto cases = cases_of_size(settings, routine, ranks, size);
        std::vector<Row> measured = measure_size(settings, cases);
        failed |= measured.size() < cases.size();
        for (Row& row : measured) {
          if (!row.column(false) && !row.column(true)) continue;
          print_row(row);
          rows.push_back(std::move(row));
        }
      }
  }
  return rows;
}

std::string processor() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

void write_json(const Settings& settings, const std::vector<Row>& rows,
                const std::vector<SizeSummary>& summaries) {
  nlohmann::json json = {
      {"machine", {{"cpu", processor()}, {"cpus", std::thread::hardware_concurrency()}}},
      {"rounds", settings.rounds},
      {"pinned", settings.common.pin},
      {"results", nlohmann::json::array()},
      {"comparisons", nlohmann::json::array()}};
  for (const Row& row : rows) json["results"].push_back(to_json(row));
  for (const SizeSummary& summary : summaries) json["comparisons"].push_back(to_json(summary));
  write_file("--json", settings.json, json.dump(1) + '\n');
}

// --- Options ---

std::string footer() {
  std::string text = "Backends:\n";
  for (const Backend& backend : backends())
    text += "  " + std::string(backend.name) +
            std::string(14 - std::string(backend.name).size(), ' ') + backend.help + "\n";
  text += "Algorithms of threads, processes, copied and gpus (others have no choice):\n";
  for (const Routine routine : all_routines()) {
    text += "  " + std::string(name(routine)) +
            std::string(14 - std::string(name(routine)).size(), ' ') + " ";
    for (const std::string& algorithm : algorithms_of(backend_named("gpus"), routine))
      text += " " + algorithm;
    text += "\n";
  }
  text +=
      "  *_kernel are for gpus only.\n\n"
      "#wrong counts elements, over all ranks, that are not bit by bit what a plain loop says; the "
      "exit status\n"
      "is 1 if there are any. Goals that are missed are said, and change nothing.";
  return text;
}

void declare(CLI::App& app, Settings& settings) {
  const CLI::AsSizeValue size(/*kb_is_1000=*/false);
  app.add_option("--collectives", settings.collectives, "as all_reduce,broadcast; or all")
      ->delimiter(',');
  app.add_option("--backends", settings.backends, "as threads,gpus; below")->delimiter(',');
  app.add_flag("--peers", settings.has_peers,
               "also threads, processes, copied, openmpi, gloo_itself and memcpy");
  app.add_option("--algorithms", settings.algorithms,
                 "as ring,two_shot; all; or default: what a group chooses")
      ->delimiter(',');
  app.add_option("--ranks", settings.ranks, "numbers of ranks, as 2,4")
      ->delimiter(',')
      ->check(CLI::Range(1, RankBoard::kMaxRanks));
  const CLI::Range size_range(std::int64_t{1}, std::int64_t{1} << 33);
  auto* min_size = app.add_option("--min-size", settings.min_size, "bytes, as 4 or 64KiB; 4")
                       ->transform(size)
                       ->check(size_range);
  auto* max_size =
      app.add_option("--max-size", settings.max_size, "64MiB")->transform(size)->check(size_range);
  auto* factor = app.add_option("--factor", settings.factor, "from one size to the next; 4")
                     ->check(CLI::Range(2, 1024));
  app.add_option("--sizes", settings.sizes, "these alone, as 4,64KiB,1MiB")
      ->delimiter(',')
      ->transform(size)
      ->check(size_range)
      ->excludes(min_size)
      ->excludes(max_size)
      ->excludes(factor);
  app.add_option("--dtype", settings.dtype, "float32");
  app.add_option("--op", settings.op, "sum, mean, product, min or max; sum");
  app.add_option("--root", settings.common.root, "of broadcast and reduce; 0")
      ->check(option::whole(0, RankBoard::kMaxRanks));
  app.add_option("--segments", settings.common.segments,
                 "of plans that can be cut; 0 chooses by size")
      ->check(option::whole(0, 1 << 20));
  app.add_option("--transfers", settings.transfers,
                 "between GPUs: automatic, copy_engines or kernels; automatic");
  app.add_option("--gpus", settings.common.gpus,
                 "ranks take turns on the first so many; 0 means all")
      ->check(option::whole(0, 4096));
  app.add_option("--rounds", settings.rounds, "1")->check(CLI::Range(1, 1000));
  app.add_option("--samples", settings.common.samples, "of a time, each a batch of calls; 15")
      ->check(CLI::Range(1, 10000));
  app.add_flag("--pin,!--no-pin", settings.common.pin,
               "one processor per rank, whoever's, where there are enough; yes");
  app.add_option("--deadline", settings.deadline, "seconds that a case may take; 300")
      ->check(option::number(0.001, 86400));
  app.add_option("--plant-wrong", settings.common.plant,
                 "spoil so many elements of one rank's result, to see them counted")
      ->check(option::whole(0, 1 << 30));
  app.add_option("--json", settings.json, "also write everything to this file");
  app.footer(footer());
}

int run(int argc, char** argv) {
  Settings settings;
  CLI::App app("Collectives: time, bandwidth and correctness, as nccl-tests print them.",
               "collectives");
  declare(app, settings);
  std::vector<Routine> routines;
  const auto check_all = [&] { routines = check(settings); };
  if (const auto exit_code = parse_options(app, argc, argv, check_all)) return *exit_code;
  std::printf("# %s, %u CPUs; %d round%s%s\n", processor().c_str(),
              std::thread::hardware_concurrency(), settings.rounds, settings.rounds == 1 ? "" : "s",
              settings.common.pin ? ", pinned" : "");
  bool failed = false;
  const std::vector<Row> rows = sweep(settings, routines, failed);
  const std::vector<SizeSummary> summaries = summarize(rows);
  if (settings.backends.size() > 1) print_summaries(summaries);
  if (!settings.json.empty()) write_json(settings, rows, summaries);
  const auto is_wrong = [](const Row& row) { return row.wrong() != 0; };
  return failed || std::any_of(rows.begin(), rows.end(), is_wrong) ? 1 : 0;
}

}  // namespace
}  // namespace ringrad::bench

int main(int argc, char** argv) {
  using namespace ringrad::bench;
  if (argc == 3 && std::string(argv[1]) == kPartOfCase) return run_part_of_case(argv[2]);
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
