// StoreAddress: where a job's store is (store.h), and the secret that opens it.

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ringrad/core/base/error.h"

namespace ringrad {

struct StoreAddress {
  std::string host = "127.0.0.1";
  int port = 0;
  std::string token;  ///< the job's secret; it never crosses the network
};

/// Two hexadecimal digits for each byte.
std::string hex(std::span<const std::uint8_t> bytes);

/// A secret that cannot be guessed: 128 random bits as 32 hexadecimal digits.
std::string make_token();

/// Refuses a secret that could be guessed: one of fewer than 22 characters, which is how many
/// base64 needs for 128 bits, or of fewer than 8 different ones, which random bits almost never
/// give.
///
/// Throws: ValueError, which names `what` and says how to make a good one, and does not repeat the
///         secret
void check_token(const std::string& token, const std::string& what, Where where = Where::current());

}  // namespace ringrad
