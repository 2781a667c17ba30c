#include "ringrad/parallel/plan/file/plan_file.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>

#include "ringrad/parallel/plan/collective/check.h"
#include "ringrad/parallel/plan/collective/require.h"
#include "ringrad/parallel/plan/file/json_fields.h"
#include "ringrad/parallel/plan/file/plan_json.h"
#include "ringrad/parallel/plan/pipeline/pipeline_check.h"

namespace ringrad {
namespace {

template <class CounterExample>
std::optional<std::string> text_of_fault(const std::optional<CounterExample>& fault) {
  return fault ? std::optional(text_of(*fault)) : std::nullopt;
}

}  // namespace

PlanFile read_plan_file(const std::string& path) {
  std::ifstream file(path);
  require(file.is_open(), "plan: the file must be readable; got ", path);
  // One byte more than the parser accepts, so that it refuses a longer file, which may be endless.
  std::string text;
  std::array<char, 1 << 16> piece;
  while (text.size() <= kMostPlanBytes &&
         (file.read(piece.data(), piece.size()), file.gcount() > 0))
    text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
  text.resize(std::min(text.size(), kMostPlanBytes + 1));
  if (text.find("\"schedule\"") != std::string::npos) return pipeline_run_from_json(text);
  return collective_plan_from_json(text);
}

std::optional<std::string> fault_of(const CollectivePlan& plan) {
  constexpr std::int64_t kMost = std::int64_t{1} << 22;
  require(std::int64_t{plan.world_size} * plan.num_chunks <= kMost,
          "plan: ranks times chunks must be at most ", kMost, "; got ", plan.world_size, " and ",
          plan.num_chunks);
  return text_of_fault(plan_check(plan));
}

std::optional<std::string> fault_of(const PipelinePlan& plan) {
  return text_of_fault(
      pipeline_check(has_messages(plan) ? plan : with_messages(plan), plan.num_micro_batches));
}

}  // namespace ringrad
