#include "ringrad/parallel/comm/store/store_protocol.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <system_error>

namespace ringrad {
namespace {

constexpr std::size_t kWaitBytes = 4, kAmountBytes = 8;

std::string big_endian(std::uint64_t number, std::size_t num_bytes) {
  std::string bytes(num_bytes, '\0');
  for (std::size_t i = num_bytes; i-- > 0; number >>= 8) bytes[i] = static_cast<char>(number);
  return bytes;
}

std::uint64_t number_of(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<std::uint8_t>(byte);
  return number;
}

// Takes the operand into the request; false unless it is one.
bool decode_operand(std::string_view operand, StoreRequest& request) {
  using Operation = StoreRequest::Operation;
  switch (request.operation) {
    case Operation::set:
    case Operation::set_first:
      request.value = operand;
      return operand.size() <= kMostValueBytes;
    case Operation::get:
      request.wait = std::chrono::milliseconds(number_of(operand));
      return operand.size() == kWaitBytes;
    case Operation::add:
      request.amount = static_cast<std::int64_t>(number_of(operand));
      return operand.size() == kAmountBytes;
  }
  return false;
}

}  // namespace

std::string frame_header(std::size_t body_bytes) {
  return big_endian(body_bytes, kFrameHeaderBytes);
}

std::size_t frame_size(std::string_view header) {
  return number_of(header.substr(0, kFrameHeaderBytes));
}

bool is_store_name(std::string_view name) {
  return !name.empty() && name.size() <= kMostNameBytes &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) || c == '.' || c == '_' || c == '-' || c == '/';
         });
}

std::string encode(const StoreRequest& request) {
  using Operation = StoreRequest::Operation;
  std::string bytes(1, static_cast<char>(request.operation));
  bytes += big_endian(request.name.size(), 2) + request.name;
  if (request.operation == Operation::get)
    return bytes + big_endian(static_cast<std::uint64_t>(request.wait.count()), kWaitBytes);
  if (request.operation == Operation::add)
    return bytes + big_endian(static_cast<std::uint64_t>(request.amount), kAmountBytes);
  return bytes + request.value;
}

std::string encode(const StoreAnswer& answer) {
  return static_cast<char>(answer.status) + answer.text;
}

std::optional<StoreRequest> decode_request(std::string_view bytes) {
  constexpr std::size_t kFixed = 1 + 2;
  if (bytes.size() < kFixed || bytes.size() > kMostPayloadBytes) return {};
  const std::size_t name_size = number_of(bytes.substr(1, 2));
  if (name_size > bytes.size() - kFixed) return {};
  StoreRequest request{.operation = static_cast<StoreRequest::Operation>(bytes[0]),
                       .name = std::string(bytes.substr(kFixed, name_size))};
  if (!is_store_name(request.name) || !decode_operand(bytes.substr(kFixed + name_size), request))
    return {};
  return request;
}

std::optional<StoreAnswer> decode_answer(std::string_view bytes) {
  using Status = StoreAnswer::Status;
  if (bytes.empty() || bytes.size() > 1 + kMostValueBytes) return {};
  const auto status = static_cast<Status>(bytes[0]);
  if (status < Status::done || status > Status::refused) return {};
  return StoreAnswer{status, std::string(bytes.substr(1))};
}

std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

}  // namespace ringrad
