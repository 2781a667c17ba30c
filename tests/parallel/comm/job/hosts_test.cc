#include "ringrad/parallel/comm/common/hosts.h"

#include <gtest/gtest.h>

#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

TEST(HostsTest, ReadsNamesAndNumbers) {
  const std::vector<Host> expected = {{"h1", 2}, {"user@h2.example", 1}, {"localhost", 4096}};
  EXPECT_EQ(parse_hosts("h1:2,user@h2.example,localhost:4096"), expected);
}

TEST(HostsTest, SaysWhatAHostMustBe) {
  for (const char* name : {"", ",", "h1,,h2", ":2", "-h:1", "h 1", "h;ls", "h1:2:3"})
    expect_throws<ValueError>([&] { parse_hosts(name); }, "hosts: ");
  for (const char* ranks : {"h1:", "h1:0", "h1:-1", "h1:4097", "h1:2x"})
    expect_throws<ValueError>([&] { parse_hosts(ranks); }, "a host must have ranks in [1, 4096]");
  expect_throws<ValueError>([] { parse_hosts("h1:1,h1:2"); },
                            "each host must be named once; got h1");
  expect_throws<ValueError>([] { parse_hosts("h1,"); }, "hosts must be listed as h1:2,h2:2");
}

TEST(HostsTest, HostsElsewhereNeedAnAddressOfThisOne) {
  EXPECT_EQ(address_for({{"localhost", 2}}), "127.0.0.1");
  EXPECT_EQ(address_for({{"localhost", 2}, {"user@127.0.0.5", 1}}), "127.0.0.1");
  expect_throws<CollectiveError>(
      [] {
        address_for({{"no.such.host.invalid", 1}});
      },
      "master_addr must say how other hosts reach this one");
}

// As when a machine is in its own list, under a name that leads to 127.0.1.1.
TEST(HostsTest, AHostThatIsThisOneByANameOfItsOwnTellsNothingAboutOthers) {
  const auto found = [](const std::vector<Host>& hosts) {
    try {
      return address_for(hosts);
    } catch (const CollectiveError& error) {  // there is no network
      return std::string(error.message());
    }
  };
  EXPECT_EQ(found({{"127.0.1.1", 1}, {"192.0.2.1", 1}}), found({{"192.0.2.1", 1}}));
  EXPECT_NE(found({{"192.0.2.1", 1}}), "127.0.0.1");
}

}  // namespace
}  // namespace ringrad
