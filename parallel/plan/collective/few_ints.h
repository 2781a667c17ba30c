// FewInts: a list of ints that are mostly one or two, such as a step's peers.
//
// A plan of 1,024 ranks has millions of steps. One or two ints are stored in the object itself; a
// longer list has its own array. The length is set when the list is made.
//
//   1 or 2 ints   [ a | b     | size ]
//   more          [ pointer   | size ] --> [ a | b | c | ... ]

#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

namespace ringrad {

/// Behaves as a vector of fixed length.
class FewInts {
 public:
  FewInts() = default;
  FewInts(std::initializer_list<int> ints) : FewInts(std::span(ints.begin(), ints.size())) {}
  FewInts(const std::vector<int>& ints) : FewInts(std::span(ints)) {}
  FewInts(const FewInts& other) : FewInts(std::span(other.begin(), other.size())) {}
  FewInts(FewInts&& other) noexcept : place_(other.place_), size_(std::exchange(other.size_, 0)) {}
  FewInts& operator=(FewInts other) noexcept {
    std::swap(place_, other.place_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~FewInts() {
    if (is_long()) delete[] place_.many;
  }

  std::size_t size() const { return static_cast<std::size_t>(size_); }
  bool empty() const { return size_ == 0; }

  int* begin() { return is_long() ? place_.many : place_.few; }
  int* end() { return begin() + size_; }
  const int* begin() const { return is_long() ? place_.many : place_.few; }
  const int* end() const { return begin() + size_; }

  int& operator[](std::size_t i) { return begin()[i]; }
  int operator[](std::size_t i) const { return begin()[i]; }
  int& front() { return *begin(); }
  int& back() { return end()[-1]; }

  bool operator==(const FewInts& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  explicit FewInts(std::span<const int> ints) : size_(static_cast<int>(ints.size())) {
    if (is_long()) place_.many = new int[ints.size()];
    std::copy(ints.begin(), ints.end(), begin());
  }

  bool is_long() const { return size_ > 2; }

  union Place {
    int few[2];
    int* many;
  };
  Place place_{};
  int size_ = 0;
};

}  // namespace ringrad
