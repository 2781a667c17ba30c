// StoreLimits: how many connections a store's server has, and for how long it waits for each. What
// it reads and keeps is limited by store_protocol.h and store_values.h.

#pragma once

#include <chrono>
#include <cstddef>

namespace ringrad {

struct StoreLimits {
  /// Strangers at one time. A client is a stranger for the two round trips of its handshake, so
  /// several hundred ranks may arrive at once. The server allows at most a quarter of
  /// RLIMIT_NOFILE.
  std::size_t most_strangers = 512;
  /// Clients at one time. Each rank has about three connections per group, and there may be 4,096
  /// ranks.
  std::size_t most_clients = 16384;
  /// From connecting to the end of the handshake, which takes milliseconds, or longer on a machine
  /// with many more ranks than processors.
  std::chrono::milliseconds time_to_authenticate = std::chrono::seconds(5);
  /// The same on the Unix socket, where a client may wait for a processor and no stranger can come.
  std::chrono::milliseconds local_time_to_authenticate = std::chrono::seconds(60);
  /// From a frame's first byte to its last, in either direction: the longest takes 10 s at
  /// 100 KiB/s. Between frames a client may be idle forever, since ranks compute for hours.
  std::chrono::milliseconds time_to_finish_frame = std::chrono::seconds(30);
};

}  // namespace ringrad
