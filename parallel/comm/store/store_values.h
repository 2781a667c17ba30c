// StoreValues: the names and values of a store, and the limit of their memory. It knows nothing of
// connections.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "ringrad/parallel/comm/store/store_protocol.h"

namespace ringrad {

/// The most bytes that all names and values may take. A group of 1,024 ranks of Gloo leaves 140 MiB
/// of addresses here (kMostValueBytes), and a job makes several groups.
inline constexpr std::size_t kMostStoredBytes = std::size_t{1} << 30;
/// About how many bytes an entry of the map takes besides its name and value.
inline constexpr std::size_t kEntryBytes = 128;

class StoreValues {
 public:
  explicit StoreValues(std::size_t most_bytes = kMostStoredBytes) : most_bytes_(most_bytes) {}

  /// Carries the request out. A get does not wait.
  StoreAnswer perform(const StoreRequest& request);

 private:
  StoreAnswer set(const std::string& name, const std::string& value);
  StoreAnswer add(const std::string& name, std::int64_t amount);

  const std::size_t most_bytes_;
  std::size_t num_bytes_ = 0;
  std::map<std::string, std::string> values_;
};

}  // namespace ringrad
