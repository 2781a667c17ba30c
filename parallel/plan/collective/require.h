// Messages of errors, and the check that throws them, for all rooms of plan.

#pragma once

#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace ringrad {

/// The parts, printed one after the other, whatever the program's locale.
template <class... Parts>
std::string text_of(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  (out << ... << parts);
  return std::move(out).str();
}

/// Throws: std::invalid_argument with the text of the parts unless `holds`
template <class... Parts>
void require(bool holds, const Parts&... parts) {
  if (!holds) throw std::invalid_argument(text_of(parts...));
}

}  // namespace ringrad
