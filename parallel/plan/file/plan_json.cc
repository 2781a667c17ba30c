#include "ringrad/parallel/plan/file/plan_json.h"

#include <locale>
#include <sstream>
#include <utility>

#include "ringrad/parallel/plan/file/json_fields.h"

namespace ringrad {
namespace {

using nlohmann::json;

constexpr StepOp kStepOps[] = {StepOp::send, StepOp::recv, StepOp::recv_reduce, StepOp::stage,
                               StepOp::send_staged};

constexpr char kPlan[] = "collective plan";

}  // namespace

std::string to_json(const CollectivePlan& plan) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << "{\n  \"collective\": \"" << name(plan.collective)
      << "\", \"algorithm\": " << json(plan.algorithm) << ", \"world_size\": " << plan.world_size
      << ", \"num_chunks\": " << plan.num_chunks << ", \"root\": " << plan.root
      << ",\n  \"steps\": [";
  const char* separator = "\n";
  for (const Step& step : plan.steps) {
    out << separator << "    {\"step\": " << step.step << ", \"rank\": " << step.rank
        << ", \"op\": \"" << name(step.op) << "\", \"chunk\": " << step.chunk
        << ", \"peers\": " << json(step.peers) << '}';
    separator = ",\n";
  }
  out << "\n  ]\n}\n";
  return readable_text(kPlan, std::move(out).str());
}

CollectivePlan collective_plan_from_json(std::string_view text) {
  const json root = parse_json(kPlan, text);
  const JsonFields fields(root, kPlan, "",
                          {"collective", "algorithm", "world_size", "num_chunks", "root", "steps"});
  CollectivePlan plan;
  plan.collective = fields.one_of("collective", kCollectives);
  plan.algorithm = fields.string("algorithm");
  plan.world_size = fields.integer("world_size");
  plan.num_chunks = fields.integer("num_chunks");
  plan.root = fields.integer("root");
  const json& steps = fields.array("steps");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const JsonFields step(steps[i], kPlan, "steps[" + std::to_string(i) + "].",
                          {"step", "rank", "op", "chunk", "peers"});
    plan.steps.push_back({step.integer("step"), step.integer("rank"), step.one_of("op", kStepOps),
                          step.integer("chunk"), step.integers("peers")});
  }
  return plan;
}

}  // namespace ringrad
