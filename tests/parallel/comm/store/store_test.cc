#include "ringrad/parallel/comm/store/store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <limits>
#include <set>
#include <thread>
#include <vector>

#include "ringrad/parallel/comm/store/store_protocol.h"
#include "ringrad/parallel/comm/store/store_server.h"
#include "ringrad/tests/asleep.h"
#include "ringrad/tests/parallel/comm/patience.h"
#include "ringrad/tests/parallel/comm/store/store_process.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using std::chrono::milliseconds;
using testing::expect_throws;

TEST(StoreTest, KeepsWhatIsSet) {
  const StoreServer server;
  Store store(server.address()), other(server.address());
  const std::string bytes("zero \0 inside\r\n\xff", 16);
  store.set("group/a-b_c.1", bytes);
  EXPECT_EQ(other.get("group/a-b_c.1"), bytes);
  store.set("empty", "");
  EXPECT_EQ(other.get("empty"), "");
  store.set("empty", "no more");
  EXPECT_EQ(other.get("empty"), "no more");
}

TEST(StoreTest, GetWaitsForWhoeverSetsTheValue) {
  const StoreServer server;
  std::thread late([&, waiter = gettid()] {
    testing::wait_until_asleep(waiter);
    Store(server.address()).set("late", "but there");
  });
  EXPECT_EQ(Store(server.address()).get("late"), "but there");
  late.join();
}

// All clients wait for a value that the last one sets.
TEST(StoreTest, ManyMayWaitAtTheSameTime) {
  const StoreServer server;
  constexpr int kClients = 24;
  std::vector<std::int64_t> places(kClients);
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i)
    clients.emplace_back([&, i] {
      Store store(server.address());
      places[static_cast<std::size_t>(i)] = store.add("arrived", 1);
      if (places[static_cast<std::size_t>(i)] == kClients) store.set("go", "");
      store.get("go");
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(std::set(places.begin(), places.end()).size(), std::size_t{kClients});
  EXPECT_EQ(Store(server.address()).add("arrived", -kClients), 0);
}

TEST(StoreTest, FindDoesNotWait) {
  const StoreServer server;
  Store store(server.address());
  EXPECT_EQ(store.find("here"), std::nullopt);
  store.set("here", "");
  EXPECT_EQ(store.find("here"), "");
}

// Many clients decide at the same time; exactly one decision holds.
TEST(StoreTest, TheFirstToSetDecides) {
  const StoreServer server;
  constexpr int kClients = 8;
  std::vector<std::string> decisions(kClients);
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i)
    clients.emplace_back([&, i] {
      decisions[static_cast<std::size_t>(i)] =
          Store(server.address()).set_first("decision", std::to_string(i));
    });
  for (std::thread& client : clients) client.join();
  Store store(server.address());
  EXPECT_EQ(std::set(decisions.begin(), decisions.end()), std::set{store.get("decision")});
  EXPECT_EQ(store.set_first("decision", "late"), decisions[0]);
  store.set("decision", "changed");
  EXPECT_EQ(store.set_first("decision", "late"), "changed");
}

TEST(StoreTest, AnotherConnectionGivesUpWithinItsOwnTime) {
  auto server = std::make_unique<StoreServer>();
  const Store store(server->address());
  Store another = store.another(milliseconds(300));
  another.set("name", "value");
  const auto begin = std::chrono::steady_clock::now();
  expect_throws<CollectiveError>([&] { another.get("never"); },
                                 "\"never\" must be set within 0.3 s; got nothing");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, testing::kPatience);
  server.reset();
  expect_throws<CollectiveError>([&] { another.find("name"); }, "must answer; got ");
}

TEST(StoreTest, ErrorsSayWhatWasExpected) {
  const StoreServer server;
  Store store(server.address(), milliseconds(100));
  expect_throws<CollectiveError>([&] { store.get("never"); },
                                 "\"never\" must be set within 0.1 s; got nothing");
  store.set("word", "seven");
  expect_throws<CollectiveError>([&] { store.add("word", 1); }, "only numbers can be added");
  for (const char* name : {"", "a b", "100%", "q?x=1", "\n"})
    expect_throws<ValueError>([&] { store.get(name); },
                              "a name must be letters, digits, and . _ - /");
  StoreAddress other_job = server.address();
  other_job.token = make_token();
  expect_throws<CollectiveError>([&] { Store client(other_job); },
                                 "must have this job's token; got one of another job");
  expect_throws<CollectiveError>([&] { StoreServer second(server.address()); },
                                 "must be able to listen; got none at 127.0.0.1");
}

TEST(StoreTest, AServerThatIsGoneIsAnError) {
  StoreAddress address;
  {
    const StoreServer server;
    address = server.address();
  }
  expect_throws<CollectiveError>([&] { Store client(address, milliseconds(100)); },
                                 "must answer; got ");
  auto server = std::make_unique<StoreServer>(address);
  Store store(address, milliseconds(100));
  server.reset();
  expect_throws<CollectiveError>([&] { store.set("x", "y"); }, "must answer; got ");
  expect_throws<CollectiveError>([&] { store.get("x"); }, "must answer; got ");
}

// A server of this machine that is late lives: its end would be noticed.
TEST(StoreTest, AServerThatIsStoppedForAWhileIsWaitedFor) {
  const testing::StoreProcess server;
  Store store(server.address());
  server.stop();
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(11'500));
    server.send_signal(SIGCONT);
  });
  store.set("value", "late");
  EXPECT_EQ(store.get("value"), "late");
  late.join();
}

TEST(StoreTest, AServerThatStaysStoppedIsAnError) {
  const testing::StoreProcess server;
  Store store(server.address());
  store.answer_within(milliseconds(300));
  server.stop();
  expect_throws<CollectiveError>([&] { store.set("x", "y"); },
                                 "must answer; got no answer in time");
}

TEST(StoreTest, WaitsForAServerThatComesLater) {
  StoreAddress address;
  {
    const StoreServer server;
    address = server.address();
  }
  std::unique_ptr<StoreServer> server;
  std::thread late([&, waiter = gettid()] {
    testing::wait_until_asleep(waiter);
    server = std::make_unique<StoreServer>(address);
  });
  Store store(address);
  late.join();
  EXPECT_EQ(store.add("alive", 1), 1);
}

TEST(StoreTest, NamesAndValuesHaveLimits) {
  const StoreServer server;
  Store store(server.address());
  const std::string longest_name(kMostNameBytes, 'n'), longest_value(kMostValueBytes, '\x80');
  store.set(longest_name, longest_value);
  EXPECT_EQ(store.get(longest_name), longest_value);
  expect_throws<ValueError>([&] { store.set(longest_name + 'n', ""); }, "at most 1024; got \"nnn");
  expect_throws<ValueError>([&] { store.set("n", longest_value + 'v'); },
                            "the value of n must have at most 1048576 bytes; got 1048577");
}

TEST(StoreTest, SumsStayWithin64Bits) {
  const StoreServer server;
  Store store(server.address());
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(store.add("sum", kMost), kMost);
  expect_throws<CollectiveError>([&] { store.add("sum", 1); }, "the sum must fit into 64 bits");
  EXPECT_EQ(store.add("sum", -kMost), 0);
}

TEST(StoreTest, TokensCannotBeGuessed) {
  EXPECT_EQ(make_token().size(), 32u);
  EXPECT_NE(make_token(), make_token());
  check_token(make_token(), "here");
  for (const char* weak : {"job", "job77", "correct horse", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    expect_throws<ValueError>([&] { check_token(weak, "here"); },
                              "here: the job's secret must have at least 22 characters, 8 of them "
                              "different, so that nobody can guess it; got ");
    expect_throws<ValueError>([&] { StoreServer server({.token = weak}); },
                              "Make one with: openssl rand -hex 16");
  }
}

}  // namespace
}  // namespace ringrad
