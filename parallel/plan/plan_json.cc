#include "parallel/plan/plan_json.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace ringrad {
namespace {

using nlohmann::json;

constexpr Collective kCollectives[] = {Collective::all_reduce, Collective::reduce_scatter,
                                       Collective::all_gather, Collective::broadcast,
                                       Collective::reduce,     Collective::all_to_all};
constexpr StepOp kOps[] = {StepOp::send, StepOp::recv, StepOp::recv_reduce, StepOp::stage,
                           StepOp::send_staged};

[[noreturn]] void fail(const std::string& field, const std::string& must, const std::string& got) {
  throw std::invalid_argument("collective plan: " + field + " must " + must + "; got " + got);
}

// An object of the text and the name by which errors call it: "" or "steps[3].".
class Fields {
 public:
  Fields(const json& object, std::string prefix, std::initializer_list<const char*> names)
      : object_(object), prefix_(std::move(prefix)) {
    const std::string whole = prefix_.empty() ? "the text" : prefix_.substr(0, prefix_.size() - 1);
    if (!object.is_object()) fail(whole, "be an object", object.dump());
    for (const char* name : names)
      if (!object.contains(name)) fail(prefix_ + name, "be there", "none");
    for (const auto& [key, value] : object.items())
      if (std::find(names.begin(), names.end(), key) == names.end())
        fail(whole, "have known fields only", "'" + key + "'");
  }

  std::string string(const char* name) const {
    const json& value = object_.at(name);
    if (!value.is_string()) fail(prefix_ + name, "be a string", value.dump());
    return value.get<std::string>();
  }

  int integer(const char* name) const { return integer(object_.at(name), prefix_ + name); }

  std::vector<int> integers(const char* name) const {
    const json& list = array(name);
    std::vector<int> values;
    for (std::size_t i = 0; i < list.size(); ++i)
      values.push_back(integer(list[i], prefix_ + name + "[" + std::to_string(i) + "]"));
    return values;
  }

  const json& array(const char* name) const {
    const json& value = object_.at(name);
    if (!value.is_array()) fail(prefix_ + name, "be a list", value.dump());
    return value;
  }

  // The value whose name() the field holds.
  template <class Enum, std::size_t count>
  Enum one_of(const char* field, const Enum (&values)[count]) const {
    const std::string text = string(field);
    std::string names;
    for (Enum value : values) {
      if (text == name(value)) return value;
      names += (names.empty() ? "" : ", ") + std::string(name(value));
    }
    fail(prefix_ + field, "be one of " + names, "'" + text + "'");
  }

 private:
  static int integer(const json& value, const std::string& field) {
    const bool fits = value.is_number_integer() && value >= std::numeric_limits<int>::min() &&
                      value <= std::numeric_limits<int>::max();
    if (!fits) fail(field, "be a 32-bit integer", value.dump());
    return value.get<int>();
  }

  const json& object_;
  const std::string prefix_;
};

json parse(std::string_view text) {
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    fail("the text", "be JSON", error.what());
  }
}

}  // namespace

std::string to_json(const CollectivePlan& plan) {
  std::ostringstream out;
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
  return std::move(out).str();
}

CollectivePlan collective_plan_from_json(std::string_view text) {
  const json root = parse(text);
  const Fields fields(root, "",
                      {"collective", "algorithm", "world_size", "num_chunks", "root", "steps"});
  CollectivePlan plan;
  plan.collective = fields.one_of("collective", kCollectives);
  plan.algorithm = fields.string("algorithm");
  plan.world_size = fields.integer("world_size");
  plan.num_chunks = fields.integer("num_chunks");
  plan.root = fields.integer("root");
  const json& steps = fields.array("steps");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Fields step(steps[i], "steps[" + std::to_string(i) + "].",
                      {"step", "rank", "op", "chunk", "peers"});
    plan.steps.push_back({step.integer("step"), step.integer("rank"), step.one_of("op", kOps),
                          step.integer("chunk"), step.integers("peers")});
  }
  return plan;
}

}  // namespace ringrad
