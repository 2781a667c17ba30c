// Numbers as some countries write them: 1 234,5.

#pragma once

#include <locale>
#include <string>

namespace ringrad::testing {

/// Until the end of the scope, new streams write 1 234,5, and read "1 2" as the number 12.
class ForeignNumbers {
 public:
  ForeignNumbers()
      : before_(std::locale::global(std::locale(std::locale::classic(), new Punctuation))) {}
  ~ForeignNumbers() { std::locale::global(before_); }
  ForeignNumbers(const ForeignNumbers&) = delete;
  ForeignNumbers& operator=(const ForeignNumbers&) = delete;

 private:
  struct Punctuation : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return ' '; }
    std::string do_grouping() const override { return "\3"; }
  };

  std::locale before_;
};

}  // namespace ringrad::testing
