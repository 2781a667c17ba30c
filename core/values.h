// Values: the numbers in tensor({{1, 2}, {3, 4}}), with lists nested to any depth.

#pragma once

#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringrad/core/dtype.h"
#include "ringrad/core/scalar.h"

namespace ringrad {

/// A number, or a list of Values.
class Values {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> || std::same_as<T, float16> || std::same_as<T, bfloat16> Values(
      T number)
      : number_(number) {}
  Values(std::initializer_list<Values> list) : is_list_(true), list_(list) {}
  explicit Values(std::vector<Values> list) : is_list_(true), list_(std::move(list)) {}

  bool is_list() const { return is_list_; }
  /// REQUIRES: is_list()
  const std::vector<Values>& list() const { return list_; }
  /// REQUIRES: not is_list()
  const Scalar& number() const { return number_; }

 private:
  bool is_list_ = false;
  Scalar number_ = 0;
  std::vector<Values> list_;
};

}  // namespace ringrad
