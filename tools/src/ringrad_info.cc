// ringrad-info: what this machine offers, what messages between ranks cost on it, and which plan a
// group therefore chooses for buffers of which size.
//
//     ringrad-info --ranks 2,4                   ranks are threads of this process
//     ringrad-info --device cuda                 with tensors on GPUs
//     ringrun -n 4 ringrad-info                  ranks are processes; rank 0 prints

#include <sched.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/simd.h"
#include "ringrad/core/untrusted/options.h"
#include "ringrad/kernels/library/backend.h"
#include "ringrad/parallel/comm/host/process_group.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/memory/program_cache.h"
#include "ringrad/parallel/comm/memory/rank_group.h"

namespace ringrad {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostLogBytes = 30;

std::string in_bytes(std::int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 3; bytes /= 1024) ++unit;
  return concat(bytes, ' ', units[unit]);
}

// --- The machine ---

// That of the loops over elements.
std::string instruction_set() {
#if RINGRAD_HAS_CLONES
  if (__builtin_cpu_supports("x86-64-v4")) return "avx512f";
  return __builtin_cpu_supports("x86-64-v3") ? "avx2" : "sse4.2";
#elif defined(__AVX512F__)
  return "avx512f";
#elif defined(__AVX2__)
  return "avx2";
#elif defined(__x86_64__)
  return "sse4.2";
#else
  return "neon";
#endif
}

Json describe_machine() {
  cpu_set_t allowed;
  const int processors =
      sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
  Json gpus = Json::array();
  for (int index = 0; index < num_cuda_devices(); ++index)
    gpus.push_back(gpu_name({DeviceType::cuda, index}));
  return {{"processors", processors},
          {"instruction_set", instruction_set()},
          {"cpu_products", cpu_products()},
          {"gpus", gpus},
          {"gpus_are_simulated", is_cuda_simulated()}};
}

// --- A group's choices ---

// Sizes from one to the next that get the same plan.
Json choices_of(Collective collective, int world_size, const CostModel& links, SumOrder order,
                bool has_eager) {
  ProgramCache cache(world_size, {{collective, nullptr}}, order);
  cache.set_links(DeviceType::cpu, links);
  Json choices = Json::array();
  for (int log_bytes = 2; log_bytes <= kMostLogBytes; ++log_bytes) {
    const std::int64_t bytes = std::int64_t{1} << log_bytes;
    std::string algorithm = "eager";
    double seconds = links.within_host.alpha_s;
    if (collective != Collective::all_reduce || !has_eager ||
        bytes > static_cast<std::int64_t>(RankGroup::kEagerBytes)) {
      ProgramKey key{.collective = collective, .log_bytes = log_bytes};
      if (has_segments(collective)) key.segments = num_segments(bytes, world_size);
      algorithm = cache.get(key, Where::current()).algorithm;
      const CollectivePlan plan =
          make_plan(collective, algorithm, world_size, {.segments = key.segments});
      seconds = predicted_seconds(plan, bytes, links);
    }
    if (choices.empty() || choices.back()["algorithm"] != algorithm)
      choices.push_back({{"algorithm", algorithm}, {"from_bytes", bytes}, {"from_s", seconds}});
    choices.back()["to_bytes"] = bytes;
    choices.back()["to_s"] = seconds;
  }
  return choices;
}

Json describe_group(const std::string& ranks, int world_size, const CostModel& links,
                    SumOrder order, const Device& device) {
  Json group = {{"ranks", ranks},
                {"world_size", world_size},
                {"device", device.is_cpu()       ? "cpu"
                           : is_cuda_simulated() ? "simulated gpu"
                                                 : "gpu"},
                {"order", name(order)},
                {"alpha_s", links.within_host.alpha_s},
                {"beta_s_per_byte", links.within_host.beta_s_per_byte},
                {"gamma_s_per_byte", links.gamma_s_per_byte}};
  for (const Collective collective :
       {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
        Collective::broadcast, Collective::reduce})
    group["choices"][name(collective)] = choices_of(collective, world_size, links, order,
                                                    device.is_cpu() && order != SumOrder::tree);
  return group;
}

// --- Printing ---

void print_machine(const Json& machine) {
  std::printf("processors  %d, %s\n", machine["processors"].get<int>(),
              machine["instruction_set"].get<std::string>().c_str());
  std::printf("products    %s\n", machine["cpu_products"].get<std::string>().c_str());
  if (machine["gpus"].empty()) std::printf("GPUs        none\n");
  for (const Json& gpu : machine["gpus"])
    std::printf("%s  %s\n", &gpu == &machine["gpus"].front() ? "GPUs      " : "          ",
                gpu.get<std::string>().c_str());
}

void print_group(const Json& group) {
  const double beta = group["beta_s_per_byte"];
  std::printf("\n%d %s, tensors on %s, sums in %s order\n", group["world_size"].get<int>(),
              group["ranks"].get<std::string>().c_str(), group["device"].get<std::string>().c_str(),
              group["order"].get<std::string>().c_str());
  std::printf(
      "  alpha %.2f us per message   beta %.4f ns per byte (%.1f GB/s)   gamma %.4f ns per byte\n",
      group["alpha_s"].get<double>() * 1e6, beta * 1e9, 1e-9 / beta,
      group["gamma_s_per_byte"].get<double>() * 1e9);
  for (const auto& [collective, choices] : group["choices"].items())
    for (const Json& choice : choices)
      std::printf("  %-15s %9s to %-9s %-18s predicted %.3g to %.3g us\n",
                  &choice == &choices.front() ? collective.c_str() : "",
                  in_bytes(choice["from_bytes"]).c_str(), in_bytes(choice["to_bytes"]).c_str(),
                  choice["algorithm"].get<std::string>().c_str(),
                  choice["from_s"].get<double>() * 1e6, choice["to_s"].get<double>() * 1e6);
}

// --- The program ---

struct Settings {
  std::vector<int> ranks = {2, 4};
  DeviceType device = DeviceType::cpu;
  SumOrder order = SumOrder::canonical;
  bool json = false;
};

Device device_of(const Settings& settings, int rank) {
  if (settings.device == DeviceType::cpu) return Device();
  RINGRAD_CHECK(num_cuda_devices() > 0, DeviceError, Where::current(),
                "ringrad-info: --device cuda needs a GPU; got none");
  return {DeviceType::cuda, rank % num_cuda_devices()};
}

Json describe_threads(const Settings& settings) {
  Json groups = Json::array();
  for (const int n : settings.ranks)
    run_ranks(n, [&](Communicator& comm) {
      const Device device = device_of(settings, comm.rank());
      const auto links = comm.links(device);
      if (comm.rank() == 0)
        groups.push_back(
            describe_group("threads", n, links.value_or(CostModel()), settings.order, device));
    });
  return groups;
}

Json describe_processes(const Settings& settings) {
  const auto comm = join_process_group();
  const Device device = device_of(settings, comm->rank());
  const auto links = comm->links(device);
  if (comm->rank() != 0) return nullptr;
  return {describe_group("processes", comm->world_size(), links.value_or(CostModel()),
                         settings.order, device)};
}

int run(int argc, char** argv) {
  Settings settings;
  CLI::App app("What this machine offers, and which plans groups of ranks choose on it.");
  app.add_option("--ranks", settings.ranks,
                 "Numbers of ranks, as 2,4; under ringrun the job says it")
      ->delimiter(',')
      ->check(CLI::Range(2, kMaxRanks));
  std::string device = "cpu", order = name(SumOrder::canonical);
  app.add_option("--device", device, "Where tensors are")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--order", order, "How sums are to be added")
      ->check(
          CLI::IsMember({name(SumOrder::canonical), name(SumOrder::tree), name(SumOrder::fast)}))
      ->capture_default_str();
  app.add_flag("--json", settings.json, "As JSON");
  if (const auto exit_code = parse_options(app, argc, argv)) return *exit_code;
  if (device == "cuda") settings.device = DeviceType::cuda;
  for (const SumOrder known : {SumOrder::tree, SumOrder::fast})
    if (order == name(known)) settings.order = known;

  const bool is_job = rank_environment().world_size > 1;
  const Json groups = is_job ? describe_processes(settings) : describe_threads(settings);
  if (groups.is_null()) return 0;
  const Json machine = describe_machine();
  if (settings.json) {
    std::printf("%s\n", Json{{"machine", machine}, {"groups", groups}}.dump(2).c_str());
    return 0;
  }
  print_machine(machine);
  for (const Json& group : groups) print_group(group);
  return 0;
}

}  // namespace
}  // namespace ringrad

int main(int argc, char** argv) {
  try {
    return ringrad::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ringrad-info: %s\n", error.what());
    return 1;
  }
}
