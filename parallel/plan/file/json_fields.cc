#include "ringrad/parallel/plan/file/json_fields.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "ringrad/core/untrusted/json.h"

namespace ringrad {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const char* what, const std::string& field, const std::string& must,
                         const std::string& got) {
  throw std::invalid_argument(std::string(what) + ": " + field + " must " + must + "; got " + got);
}

// A value in an error message: one short line of ASCII.
std::string shown(const json& value) {
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() <= kMostQuotedBytes ? text : text.substr(0, kMostQuotedBytes) + "...";
}

}  // namespace

json parse_json(const char* what, std::string_view text) {
  try {
    return parse_untrusted_json(text, {.bytes = kMostPlanBytes});
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string(what) + ": the text " + error.what());
  }
}

std::string readable_text(const char* what, std::string text) {
  if (text.size() > kMostPlanBytes)
    refuse(what, "the text", "have at most " + std::to_string(kMostPlanBytes) + " bytes",
           std::to_string(text.size()));
  return text;
}

JsonFields::JsonFields(const json& object, const char* what, std::string prefix,
                       std::initializer_list<const char*> names)
    : object_(object), what_(what), prefix_(std::move(prefix)) {
  const std::string whole = prefix_.empty() ? "the text" : prefix_.substr(0, prefix_.size() - 1);
  if (!object.is_object()) refuse(what_, whole, "be an object", shown(object));
  for (const char* name : names)
    if (!object.contains(name)) fail(name, "be there", "none");
  for (const auto& [key, value] : object.items())
    if (std::find(names.begin(), names.end(), key) == names.end())
      refuse(what_, whole, "have known fields only", quoted_bytes(key));
}

void JsonFields::fail(const std::string& field, const std::string& must,
                      const std::string& got) const {
  refuse(what_, prefix_ + field, must, got);
}

std::string JsonFields::string(const char* name) const {
  const json& value = object_.at(name);
  if (!value.is_string()) fail(name, "be a string", shown(value));
  return value.get<std::string>();
}

int JsonFields::integer(const json& value, const std::string& field) const {
  const bool fits = value.is_number_integer() && value >= std::numeric_limits<int>::min() &&
                    value <= std::numeric_limits<int>::max();
  if (!fits) fail(field, "be a 32-bit integer", shown(value));
  return value.get<int>();
}

int JsonFields::integer(const char* name) const { return integer(object_.at(name), name); }

double JsonFields::number(const char* name) const {
  const json& value = object_.at(name);
  if (!value.is_number()) fail(name, "be a number", shown(value));
  return value.get<double>();
}

std::vector<int> JsonFields::integers(const char* name) const {
  const json& list = array(name);
  std::vector<int> values;
  for (std::size_t i = 0; i < list.size(); ++i)
    values.push_back(integer(list[i], std::string(name) + "[" + std::to_string(i) + "]"));
  return values;
}

const json& JsonFields::array(const char* name) const {
  const json& value = object_.at(name);
  if (!value.is_array()) fail(name, "be a list", shown(value));
  return value;
}

}  // namespace ringrad
