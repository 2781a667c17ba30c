#include "ringrad/nn/optimizer/step_counts.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringrad::nn {
namespace {

// "optimizer." for "optimizer.3.steps"; empty for any other kind of name.
std::optional<std::string> owner_of_count(const std::string& name) {
  constexpr std::string_view kSuffix = ".steps";
  if (!name.ends_with(kSuffix)) return {};
  const std::string place = name.substr(0, name.size() - kSuffix.size());
  const std::string owner = place.substr(0, place.find_last_not_of("0123456789") + 1);
  const bool is_number = owner.size() < place.size() && (owner.empty() || owner.back() == '.');
  return is_number ? std::optional(owner) : std::nullopt;
}

}  // namespace

StateDict with_step_counts(StateDict given, const StateDict& own) {
  std::map<std::string, std::vector<std::string>> counts;
  for (const auto& [name, tensor] : own)
    if (const auto owner = owner_of_count(name)) counts[*owner].push_back(name);
  for (const auto& [name, tensor] : given)
    if (const auto owner = owner_of_count(name)) counts.erase(*owner);
  for (const auto& [owner, names] : counts)
    if (const auto step = given.find(owner + "step"); step != given.end())
      for (const std::string& name : names) given.emplace(name, step->second);
  return given;
}

}  // namespace ringrad::nn
