#include "ringrad/tests/golden/golden.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace ringrad::testing {
namespace {

Tensor to_tensor(const nlohmann::json& packed) {
  const auto extents = packed["shape"].get<std::vector<std::int64_t>>();
  const Shape shape{std::span(extents)};
  const nlohmann::json& values = packed["values"];
  if (!values.empty() && values.front().is_number_integer())
    return from_values<std::int64_t>(values.get<std::vector<std::int64_t>>(), shape);
  return from_values<float>(values.get<std::vector<float>>(), shape);
}

}  // namespace

std::map<std::string, GoldenCase> read_golden(const std::string& name) {
  const std::string path = "tests/golden/" + name + ".json";
  std::ifstream file(path);
  RINGRAD_CHECK(file, DataError, Where::current(), "read_golden: the file must exist; got ", path);
  std::map<std::string, GoldenCase> cases;
  const auto document = nlohmann::json::parse(file);  // outlives the iteration over its items
  for (const auto& [case_name, tensors] : document.items())
    for (const auto& [tensor_name, packed] : tensors.items())
      cases[case_name][tensor_name] = to_tensor(packed);
  return cases;
}

}  // namespace ringrad::testing
