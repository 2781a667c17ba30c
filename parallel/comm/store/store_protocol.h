// The protocol between a client of the store and its server, as pure functions of bytes.
//
//     frame       size of the body (4 bytes, big-endian) | body
//
//     client      hello      "RINGRAD1" | client nonce (32)
//     server      challenge  server nonce (32) | server proof (32)   (proofs, seals: store_auth.h)
//     client      proof      client proof (32)
//     server      answer     sealed: the server has let the client in
//     client      request    sealed, and so on: one answer per request, in order
//
//     request     operation (1) | size of the name (2) | name | operand
//                 the operand is the value (set, set_first), the milliseconds to wait (get, 4) or
//                 a number (add, 8)
//     answer      status (1) | text
//
// Decoders accept any bytes. What they return is within the limits below.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ringrad {

/// A group's name grows with each split; 1 KiB is more than a hundred levels.
inline constexpr std::size_t kMostNameBytes = 1024;
/// The longest values are the addresses that a rank of Gloo tells the others, 136 bytes for each:
/// 0.5 MiB for 4,096 ranks.
inline constexpr std::size_t kMostValueBytes = std::size_t{1} << 20;
/// The longest request: set, with the longest name and value.
inline constexpr std::size_t kMostPayloadBytes = 1 + 2 + kMostNameBytes + kMostValueBytes;

inline constexpr std::size_t kFrameHeaderBytes = 4;
inline constexpr std::string_view kStoreMagic = "RINGRAD1";

/// The header of a frame.
std::string frame_header(std::size_t body_bytes);
/// The size that a header of kFrameHeaderBytes tells.
std::size_t frame_size(std::string_view header);

struct StoreRequest {
  enum class Operation : std::uint8_t { set = 1, set_first = 2, get = 3, add = 4 };

  Operation operation = Operation::get;
  std::string name;
  std::string value{};               ///< of set and set_first
  std::chrono::milliseconds wait{};  ///< of get: for how long, if the value is not set
  std::int64_t amount = 0;           ///< of add
};

struct StoreAnswer {
  enum class Status : std::uint8_t {
    done = 1,     ///< text: the value (get) or the sum (add)
    taken = 2,    ///< set_first: there was a value, which is the text
    not_set = 3,  ///< get: there is none, also after the wait
    refused = 4,  ///< text: why
  };

  Status status = Status::done;
  std::string text{};
};

/// True for what may be a name: up to kMostNameBytes letters, digits, and . _ - /, at least one.
bool is_store_name(std::string_view name);

/// REQUIRES: the name and the value are within the limits, and the wait fits into 32 bits
std::string encode(const StoreRequest& request);
std::string encode(const StoreAnswer& answer);

/// Nothing unless the bytes are exactly a request, or an answer.
std::optional<StoreRequest> decode_request(std::string_view bytes);
std::optional<StoreAnswer> decode_answer(std::string_view bytes);

/// Parses a text that is one decimal number and nothing else.
std::optional<std::int64_t> parse_number(std::string_view text);

}  // namespace ringrad
