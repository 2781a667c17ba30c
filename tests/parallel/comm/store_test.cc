#include "parallel/comm/store.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "tests/testing.h"

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
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(100));
    Store(server.address()).set("late", "but there");
  });
  EXPECT_EQ(Store(server.address()).get("late"), "but there");
  late.join();
}

// All of them wait for a value that the last one sets.
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

// Of many that decide at the same time, one does.
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
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(2000));
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
  other_job.token = "another";
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

TEST(StoreTest, WaitsForAServerThatComesLater) {
  StoreAddress address;
  {
    const StoreServer server;
    address = server.address();
  }
  std::unique_ptr<StoreServer> server;
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(100));
    server = std::make_unique<StoreServer>(address);
  });
  Store store(address);
  late.join();
  EXPECT_EQ(store.add("alive", 1), 1);
}

TEST(StoreTest, TokensDiffer) {
  EXPECT_EQ(make_token().size(), 32u);
  EXPECT_NE(make_token(), make_token());
}

}  // namespace
}  // namespace ringrad
