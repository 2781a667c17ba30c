#include "ringrad/parallel/comm/common/hosts.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <memory>
#include <sstream>

#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/parallel/comm/common/descriptor.h"

namespace ringrad {
namespace {

constexpr int kMostRanks = 4096;

Host parse_host(const std::string& text, Where where) {
  const std::size_t colon = std::min(text.rfind(':'), text.size());
  Host host{text.substr(0, colon)};
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == '-' || c == '@';
  };
  // A remote shell would take one that begins with '-' for an option.
  RINGRAD_CHECK(
      !host.name.empty() && host.name[0] != '-' &&
          std::all_of(host.name.begin(), host.name.end(), is_plain),
      ValueError, where,
      "hosts: a host must be NAME[:RANKS], its name of letters, digits, and . _ - @; got ",
      quoted_bytes(text));
  if (colon == text.size()) return host;
  const char *begin = text.data() + colon + 1, *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, host.num_ranks);
  RINGRAD_CHECK(
      error == std::errc() && stop == end && host.num_ranks >= 1 && host.num_ranks <= kMostRanks,
      ValueError, where, "hosts: a host must have ranks in [1, ", kMostRanks, "]; got ",
      quoted_bytes(text));
  return host;
}

}  // namespace

std::vector<Host> parse_hosts(const std::string& text, Where where) {
  std::vector<Host> hosts;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) {
    const Host host = parse_host(one, where);
    RINGRAD_CHECK(std::none_of(hosts.begin(), hosts.end(),
                               [&](const Host& h) { return h.name == host.name; }),
                  ValueError, where, "hosts: each host must be named once; got ", host.name,
                  " again in ", quoted_bytes(text));
    hosts.push_back(host);
  }
  RINGRAD_CHECK(!hosts.empty() && text.back() != ',', ValueError, where,
                "hosts: hosts must be listed as h1:2,h2:2; got ", quoted_bytes(text));
  return hosts;
}

std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

int num_ranks_of(const std::vector<Host>& hosts) {
  int sum = 0;
  for (const Host& host : hosts) sum += host.num_ranks;
  return sum;
}

bool are_all_here(const std::vector<Host>& hosts) {
  return std::all_of(hosts.begin(), hosts.end(), [](const Host& host) { return host.is_here(); });
}

bool is_loopback(const std::string& address) { return address.starts_with("127."); }

// Nothing is sent: the system says which way it would go.
std::string source_address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  const Descriptor probe(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  socklen_t size = sizeof own;
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  char text[NI_MAXHOST];
  if (connect(probe.number(), found->ai_addr, found->ai_addrlen) != 0 ||
      getsockname(probe.number(), address, &size) != 0 ||
      getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  return text;
}

// A machine's own name often leads to a loopback address, which other hosts must not be given.
std::string address_for(const std::vector<Host>& hosts, Where where) {
  for (const Host& host : hosts) {
    if (host.is_here()) continue;
    const std::string address = source_address_towards(host.name.substr(host.name.find('@') + 1));
    RINGRAD_CHECK(!address.empty(), CollectiveError, where,
                  "launch: master_addr must say how other hosts reach this one; got none, and \"",
                  host.name, "\" has no address here that would tell");
    if (!is_loopback(address)) return address;
  }
  return "127.0.0.1";
}

}  // namespace ringrad
