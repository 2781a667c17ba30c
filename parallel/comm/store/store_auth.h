// How a client of the store and its server show each other that they know the job's token, without
// sending it.
//
//     client -> server  client nonce                 32 random bytes, new for each connection
//     server -> client  server nonce | server proof  HMAC(token, "... server proof" | both nonces)
//     client -> server  client proof                 HMAC(token, "... client proof" | both nonces)
//
// Both nonces go into every proof and key, so nothing that was recorded on one connection is valid
// on another. Each label differs, so neither side's proof serves as the other's. The client checks
// the server first: it tells nothing to a stranger that happens to listen on the port.
//
// Afterwards each payload carries a MAC by a key of this connection and direction, over its number
// and its bytes. A man in the middle cannot change, repeat, drop or insert a payload without being
// noticed. Payloads are not encrypted: a store keeps no secrets.
//
// HMAC is HMAC-SHA256 of OpenSSL's libcrypto.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringrad {

using StoreNonce = std::array<std::uint8_t, 32>;
using StoreMac = std::array<std::uint8_t, 32>;

inline constexpr std::size_t kMacBytes = sizeof(StoreMac);

/// 32 random bytes. Throws: Error if the system gives none
StoreNonce make_nonce();

/// What both sides compute for one connection.
struct StoreKeys {
  StoreMac server_proof, client_proof;
  StoreMac to_server, to_client;  // of the seals, by direction
};
StoreKeys derive_keys(std::string_view token, const StoreNonce& client, const StoreNonce& server);

/// A name for `what`: 32 hexadecimal digits that only a process with the token can compute.
std::string derive_name(std::string_view token, std::string_view what);

/// True if the bytes are the MAC. Takes equally long wherever they differ.
bool is_same(const StoreMac& mac, std::string_view bytes);

/// The bytes of a nonce or a MAC.
inline std::string_view bytes_of(const std::array<std::uint8_t, 32>& array) {
  return {reinterpret_cast<const char*>(array.data()), array.size()};
}
/// REQUIRES: bytes.size() == 32
std::array<std::uint8_t, 32> array_of(std::string_view bytes);

/// One direction of a connection: each end has a seal of the same key, and both count payloads.
class StoreSeal {
 public:
  explicit StoreSeal(const StoreMac& key) : key_(key) {}

  /// The payload with the MAC of the next number behind it.
  std::string seal(std::string payload);
  /// Takes the MAC off. Returns false if the bytes are not what the other end sealed next.
  bool open(std::string& sealed);

 private:
  StoreMac mac_of(std::string_view payload) const;

  StoreMac key_;
  std::uint64_t num_payloads_ = 0;
};

}  // namespace ringrad
