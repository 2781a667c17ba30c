#include "ringrad/parallel/comm/store/store_values.h"

#include "ringrad/core/base/error.h"

namespace ringrad {

using Status = StoreAnswer::Status;

StoreAnswer StoreValues::perform(const StoreRequest& request) {
  using Operation = StoreRequest::Operation;
  const auto found = values_.find(request.name);
  const bool is_set = found != values_.end();
  switch (request.operation) {
    case Operation::set:
      return set(request.name, request.value);
    case Operation::set_first:
      return is_set ? StoreAnswer{Status::taken, found->second} : set(request.name, request.value);
    case Operation::get:
      return is_set ? StoreAnswer{Status::done, found->second} : StoreAnswer{Status::not_set};
    case Operation::add:
      return add(request.name, request.amount);
  }
  return {Status::refused, "there is no such operation"};
}

StoreAnswer StoreValues::set(const std::string& name, const std::string& value) {
  const auto found = values_.find(name);
  const std::size_t before =
      found == values_.end() ? 0 : kEntryBytes + name.size() + found->second.size();
  const std::size_t after = kEntryBytes + name.size() + value.size();
  if (num_bytes_ - before + after > most_bytes_)
    return {Status::refused, concat("a store holds at most ", most_bytes_, " bytes")};
  values_[name] = value;
  num_bytes_ += after - before;
  return {};
}

StoreAnswer StoreValues::add(const std::string& name, std::int64_t amount) {
  const auto found = values_.find(name);
  const auto number = parse_number(found == values_.end() ? "0" : found->second);
  std::int64_t sum = 0;
  if (!number) return {Status::refused, "only numbers can be added"};
  if (__builtin_add_overflow(*number, amount, &sum))
    return {Status::refused, "the sum must fit into 64 bits"};
  const std::string text = std::to_string(sum);
  const StoreAnswer answer = set(name, text);
  return answer.status == Status::done ? StoreAnswer{Status::done, text} : answer;
}

}  // namespace ringrad
