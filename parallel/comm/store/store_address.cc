#include "ringrad/parallel/comm/store/store_address.h"

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <set>

#include "ringrad/parallel/comm/common/system_limits.h"

namespace ringrad {
namespace {

constexpr std::size_t kTokenBytes = 16;
constexpr std::size_t kFewestCharacters = 22;
constexpr std::size_t kFewestDifferent = 8;

}  // namespace

std::string hex(std::span<const std::uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) text.append({kDigits[byte >> 4], kDigits[byte & 15]});
  return text;
}

std::string make_token() {
  std::uint8_t random[kTokenBytes];
  RINGRAD_CHECK(getentropy(random, sizeof random) == 0, Error, Where::current(),
                "store: the system must give random bytes for a token; got ", text_of_errno(errno));
  return hex(random);
}

void check_token(const std::string& token, const std::string& what, Where where) {
  const std::size_t num_different = std::set<char>(token.begin(), token.end()).size();
  RINGRAD_CHECK(token.size() >= kFewestCharacters && num_different >= kFewestDifferent, ValueError,
                where, what, ": the job's secret must have at least ", kFewestCharacters,
                " characters, ", kFewestDifferent,
                " of them different, so that nobody can guess it; "
                "got ",
                token.size(), " characters, ", num_different,
                " different. Make one with: openssl rand -hex 16");
}

}  // namespace ringrad
