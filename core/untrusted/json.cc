#include "ringrad/core/untrusted/json.h"

#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "ringrad/core/untrusted/quoted_bytes.h"

namespace ringrad {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& must, const std::string& got) {
  throw std::invalid_argument("must " + must + "; got " + got);
}

// Watches the parser: the names in each open object, and the nesting depth of objects and lists.
class Watch {
 public:
  explicit Watch(const JsonLimits& limits) : limits_(limits) {}

  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    const auto level = static_cast<std::size_t>(depth);
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        if (depth >= limits_.depth)
          refuse("be nested at most " + std::to_string(limits_.depth) + " deep", "more");
        names_.resize(level + 1);
        names_[level].clear();
        break;
      case json::parse_event_t::key:  // of the object that began one level above
        if (const auto& name = parsed.get_ref<const std::string&>();
            !names_[level - 1].insert(name).second)
          refuse("have each name once", quoted_bytes(name) + " twice");
        break;
      default:
        break;
    }
    return true;
  }

 private:
  const JsonLimits limits_;
  std::vector<std::set<std::string>> names_;  // by depth
};

}  // namespace

json parse_untrusted_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    refuse("have at most " + std::to_string(limits.bytes) + " bytes", std::to_string(text.size()));
  // The parser ends at a zero byte, whatever follows, and skips a byte order mark.
  if (text.find('\0') != std::string_view::npos || text.starts_with("\xef\xbb\xbf"))
    refuse("be JSON", "a zero byte or a byte order mark");
  try {
    return json::parse(text, Watch(limits));
  } catch (const json::exception& error) {
    refuse("be JSON", quoted_bytes(error.what(), 200));
  }
}

}  // namespace ringrad
