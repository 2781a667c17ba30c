#include "ringrad/core/base/error.h"

#include <locale>
#include <sstream>
#include <utility>

namespace ringrad {

std::string detail::concat(std::initializer_list<MessagePart> parts) {
  std::ostringstream out;
  // Files and ranks read this text: "1,024" would be two numbers.
  out.imbue(std::locale::classic());
  for (const MessagePart& part : parts) part.print(out, part.value);
  return std::move(out).str();
}

std::string to_string(const Where& where) {
  std::string_view file = where.file_name();
  file.remove_prefix(file.rfind('/') + 1);  // npos + 1 == 0 keeps a bare name
  return concat(file, ':', where.line());
}

Error::Error(const std::string& message, Where where)
    : std::runtime_error(concat(message, "  [", to_string(where), "]")),
      message_size_(message.size()),
      where_(where) {}

void Error::add_context(std::string_view context) {
  *this = Error(concat(message(), "; ", context), where_);
}

}  // namespace ringrad
