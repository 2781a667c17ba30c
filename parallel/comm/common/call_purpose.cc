#include "ringrad/parallel/comm/common/call_purpose.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace ringrad {
namespace {

struct Purposes {
  std::mutex mutex;
  std::int64_t latest = 0;
  std::map<std::uint16_t, std::string> descriptions;
};

// Never destroyed: threads may fail while the process ends.
Purposes& purposes() {
  static auto* const all = new Purposes;
  return *all;
}

}  // namespace

std::int64_t take_purpose() {
  const std::lock_guard lock(purposes().mutex);
  return ++purposes().latest;
}

std::uint16_t name_purpose(std::int64_t number, const std::string& description) {
  const auto purpose = static_cast<std::uint16_t>(1 + (number - 1) % 65535);
  const std::lock_guard lock(purposes().mutex);
  purposes().latest = std::max(purposes().latest, number);
  purposes().descriptions[purpose] = description;
  return purpose;
}

std::string describe_purpose(std::uint16_t purpose) {
  if (purpose == 0) return "the program itself";
  const std::lock_guard lock(purposes().mutex);
  const auto found = purposes().descriptions.find(purpose);
  return found == purposes().descriptions.end() ? "another model" : found->second;
}

}  // namespace ringrad
