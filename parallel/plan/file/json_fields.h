// JsonFields: the fields of a hand-written JSON object, with errors that name the faulty field.
//
//     const Json root = parse_json("collective plan", text);
//     const JsonFields fields(root, "collective plan", "", {"ranks", "steps"});
//     fields.integer("ranks")            "collective plan: ranks must be a 32-bit integer; got 1.5"

#pragma once

#include <cstddef>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ringrad/core/untrusted/quoted_bytes.h"

namespace ringrad {

/// The longest text of a plan that is read, in bytes: that of a ring of 460 ranks. Parsing a text
/// of this length takes about 2 GB.
inline constexpr std::size_t kMostPlanBytes = std::size_t{64} << 20;

/// Throws: std::invalid_argument as parse_untrusted_json; `what` names the expected content
nlohmann::json parse_json(const char* what, std::string_view text);

/// Returns `text`. Throws std::invalid_argument if it is longer than kMostPlanBytes and so could
/// not be read back.
std::string readable_text(const char* what, std::string text);

class JsonFields {
 public:
  /// `prefix` is the object's name in errors: "" for the whole text, or "steps[3].".
  ///
  /// Throws: std::invalid_argument, as all functions below, unless `object` is a JSON object with
  ///         exactly these fields
  JsonFields(const nlohmann::json& object, const char* what, std::string prefix,
             std::initializer_list<const char*> names);

  std::string string(const char* name) const;
  int integer(const char* name) const;
  double number(const char* name) const;
  std::vector<int> integers(const char* name) const;
  const nlohmann::json& array(const char* name) const;

  /// The enumerator whose name() the field holds.
  template <class Enum, std::size_t count>
  Enum one_of(const char* field, const Enum (&values)[count]) const {
    const std::string text = string(field);
    std::string names;
    for (Enum value : values) {
      if (text == name(value)) return value;
      names += (names.empty() ? "" : ", ") + std::string(name(value));
    }
    fail(field, "be one of " + names, quoted_bytes(text));
  }

  [[noreturn]] void fail(const std::string& field, const std::string& must,
                         const std::string& got) const;

 private:
  int integer(const nlohmann::json& value, const std::string& field) const;

  const nlohmann::json& object_;
  const char* what_;
  const std::string prefix_;
};

}  // namespace ringrad
