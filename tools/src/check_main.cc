// ringrad-check: proves plans in files, or reports their first fault.
//
//     ringrad-check ring.json run.json
//     ring.json: proved: all_reduce by ring over 4 ranks
//     run.json: fails: deadlock: ...
//
// Exit status: 0 if all plans are proved, 1 if one is not, 2 if a file does not hold a plan.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "ringrad/core/untrusted/options.h"
#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/parallel/plan/file/plan_file.h"

namespace ringrad {
namespace {

// Names in a file may contain anything.
std::string describe(const CollectivePlan& plan) {
  return std::string(name(plan.collective)) + " by " + quoted_bytes(plan.algorithm) + " over " +
         std::to_string(plan.world_size) + " ranks";
}

std::string describe(const PipelinePlan& plan) {
  return "pipeline by " + quoted_bytes(plan.schedule) + " of " + std::to_string(plan.num_stages) +
         " stages and " + std::to_string(plan.num_micro_batches) + " micro-batches";
}

const CollectivePlan& plan_of(const CollectivePlan& plan) { return plan; }
const PipelinePlan& plan_of(const PipelineRun& run) { return run.plan; }

// The exit status for one file.
int check_file(const std::string& path) {
  try {
    const PlanFile file = read_plan_file(path);
    return std::visit(
        [&](const auto& held) {
          const auto& plan = plan_of(held);
          const auto fault = fault_of(plan);
          std::printf("%s: %s\n", path.c_str(),
                      (fault ? "fails: " + *fault : "proved: " + describe(plan)).c_str());
          return fault ? 1 : 0;
        },
        file);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), error.what());
    return 2;
  }
}

int run(int argc, char** argv) {
  std::vector<std::string> paths;
  CLI::App app("Checks plans of collectives and pipelines, and reports the first fault of each.");
  app.footer(
      "Exit status: 0 if all are proved, 1 if one is not, 2 if a file does not hold a plan.");
  app.add_option("file", paths, "Plans, as tools/draw --format json writes them")->required();
  if (const auto exit_code = parse_options(app, argc, argv)) return *exit_code;
  int status = 0;
  for (const std::string& path : paths) status = std::max(status, check_file(path));
  return status;
}

}  // namespace
}  // namespace ringrad

int main(int argc, char** argv) {
  try {
    return ringrad::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
