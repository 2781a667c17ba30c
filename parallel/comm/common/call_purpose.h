// What a collective is for: the model whose gradients it averages, say. Calls that are alike but
// for their purpose do not match, so the values of two models are never added.
//
//     const PurposeScope scope(number);       the same number on all ranks
//     comm.all_reduce(gradients);             fails unless it is for this model on all ranks
//
// The purpose is a part of the call's fingerprint (collective_call.h): comparing it costs nothing.

#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace ringrad {

/// A number that, in this process, take_purpose() has not returned and name_purpose() has not been
/// given before.
std::int64_t take_purpose();

/// The purpose for a number on which the ranks have agreed: the largest that one of them took.
/// `description` is for messages. Purposes are reused only after 65535 numbers.
std::uint16_t name_purpose(std::int64_t number, const std::string& description);

/// The purpose's description; "the program itself" for 0.
std::string describe_purpose(std::uint16_t purpose);

/// While the scope lives, this thread's calls are for this purpose.
class PurposeScope {
 public:
  explicit PurposeScope(std::uint16_t purpose) : outer_(std::exchange(current_, purpose)) {}
  ~PurposeScope() { current_ = outer_; }
  PurposeScope(const PurposeScope&) = delete;
  PurposeScope& operator=(const PurposeScope&) = delete;

  /// 0 outside of any scope.
  static std::uint16_t current() { return current_; }

 private:
  static constinit inline thread_local std::uint16_t current_ = 0;
  const std::uint16_t outer_;
};

}  // namespace ringrad
