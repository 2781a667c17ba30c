// Hosts: where the ranks of a job run, and which of this machine's addresses they reach.

#pragma once

#include <string>
#include <vector>

#include "ringrad/core/base/error.h"

namespace ringrad {

struct Host {
  std::string name;
  int num_ranks = 1;

  /// True for "localhost", which needs no remote shell.
  bool is_here() const { return name == "localhost"; }
  bool operator==(const Host&) const = default;
};

/// Reads "h1:2,h2:2"; a host without a number has one rank.
///
/// Throws: ValueError, with the requirement and the actual text, unless each host has a distinct
///         name of letters, digits, and . _ - @, not beginning with -, and 1 to 4096 ranks
std::vector<Host> parse_hosts(const std::string& text, Where where = Where::current());

/// The name of this machine until its next boot, the same in all its processes and containers;
/// empty if the system does not provide one.
std::string boot_id();

/// The number of ranks on all hosts together.
int num_ranks_of(const std::vector<Host>& hosts);

/// True if no host needs a remote shell.
bool are_all_here(const std::vector<Host>& hosts);

/// True for an IPv4 address at which a machine reaches itself alone.
bool is_loopback(const std::string& address);

/// The IPv4 address from which this machine reaches a host; empty if the host's name has none. A
/// loopback address if the name leads to this machine.
std::string source_address_towards(const std::string& host);

/// The address from which this machine reaches the first of these hosts that is another machine; a
/// loopback address if the names of all lead to this machine.
///
/// Throws: CollectiveError if that host's name, or one before it, has no address here, such as a
///         name that only the remote shell knows
std::string address_for(const std::vector<Host>& hosts, Where where = Where::current());

}  // namespace ringrad
