// The store's server among hostile connections, and its clients before a hostile server.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/store/store.h"
#include "ringrad/parallel/comm/store/store_connection.h"
#include "ringrad/parallel/comm/store/store_protocol.h"
#include "ringrad/parallel/comm/store/store_server.h"
#include "ringrad/tests/parallel/comm/store/raw_store_client.h"
#include "ringrad/tests/parallel/comm/store/store_process.h"
#include "ringrad/tests/testing.h"

// A forked child lacks the stacks of its parent's other threads. LeakSanitizer, which calls this
// when a process ends, would report memory that only those stacks point to as lost.
static const pid_t test_process = getpid();
extern "C" int __lsan_is_turned_off() { return getpid() != test_process; }

namespace ringrad {
namespace {

using std::chrono::milliseconds;
using testing::expect_throws;
using testing::RawStoreClient;
using Operation = StoreRequest::Operation;

constexpr milliseconds kPatience(20000);  // for events that need no time, on a busy machine

StoreRequest set_request(const std::string& name, const std::string& value) {
  return {.operation = Operation::set, .name = name, .value = value};
}

// --- Strangers ---

TEST(StoreAttackTest, AWrongSecretSetsNothingAndHearsNothing) {
  const StoreServer server;
  StoreAddress guessed = server.address();
  for (const char* token : {"", "job", "job77", "0123456789abcdef0123456789abcdef"}) {
    guessed.token = token;
    RawStoreClient stranger(guessed);
    stranger.say_hello_and_prove();
    stranger.send_frame(stranger.sealed(set_request("verdict", "rank 1 has failed")));
    EXPECT_TRUE(stranger.is_closed_within(kPatience));
  }
  EXPECT_EQ(Store(server.address()).find("verdict"), std::nullopt);
}

// HTTP, which an earlier store used, is refused like any other protocol.
TEST(StoreAttackTest, WhatIsNoHelloEndsTheConnection) {
  const StoreServer server;
  const std::string frame_of_wrong_magic =
      frame_header(kStoreMagic.size() + 32) + "RINGRAD0" + std::string(32, 'n');
  for (const std::string& bytes :
       {std::string("PUT /values/verdict HTTP/1.1\r\nAuthorization: Bearer job\r\n\r\n"),
        std::string(4, '\xff'), std::string(4, '\0'), std::string(1 << 20, 'x'),
        frame_of_wrong_magic}) {
    RawStoreClient stranger(server.address());
    stranger.send(bytes);
    EXPECT_TRUE(stranger.is_closed_within(kPatience));
  }
  Store(server.address()).set("still", "there");
}

TEST(StoreAttackTest, ACapturedConnectionCannotBeReplayed) {
  const StoreServer server;
  Store store(server.address());
  RawStoreClient captured(server.address());
  captured.enter();
  captured.send_frame(captured.sealed(set_request("value", "captured")));
  captured.receive_answer();
  store.set("value", "newer");
  RawStoreClient replay(server.address());
  replay.send(captured.sent());
  replay.receive_frame();  // a challenge that the captured proof does not answer
  EXPECT_TRUE(replay.is_closed_within(kPatience));
  EXPECT_EQ(store.get("value"), "newer");
}

TEST(StoreAttackTest, SilentAndSlowStrangersHaveLittleTime) {
  const StoreServer server({}, StoreLimits{.time_to_authenticate = milliseconds(300)});
  RawStoreClient silent(server.address()), slow(server.address());
  const std::string hello = frame_header(kStoreMagic.size() + 32) + "RINGRAD1";
  const auto begin = std::chrono::steady_clock::now();
  std::size_t num_sent = 0;  // a byte every 50 ms would need 2 s
  while (num_sent < hello.size() && slow.send(hello.substr(num_sent, 1)) &&
         !slow.is_closed_within(milliseconds(50)))
    ++num_sent;
  EXPECT_LT(num_sent, hello.size());
  EXPECT_TRUE(silent.is_closed_within(kPatience));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(250));
}

TEST(StoreAttackTest, StrangersDoNotTakeThePlacesOfClients) {
  constexpr std::size_t kMost = 8;
  const StoreServer server({}, StoreLimits{.most_strangers = kMost});
  Store early(server.address());
  std::list<RawStoreClient> strangers;
  for (std::size_t i = 0; i < 3 * kMost; ++i) strangers.emplace_back(server.address());
  // The oldest connections have gone. A new client finds a place, and admitted clients keep theirs.
  EXPECT_TRUE(strangers.front().is_closed_within(kPatience));
  Store late(server.address());
  late.set("late", "here");
  EXPECT_EQ(early.get("late"), "here");
}

TEST(StoreAttackTest, SilentStrangersGoBeforeOneThatHasSaidHello) {
  constexpr std::size_t kMost = 8;
  const StoreServer server(
      {}, StoreLimits{.most_strangers = kMost, .time_to_authenticate = 10 * kPatience});
  RawStoreClient rank(server.address());
  rank.say_hello();
  std::list<RawStoreClient> strangers;
  for (std::size_t i = 0; i < 10 * kMost; ++i) strangers.emplace_back(server.address());
  EXPECT_TRUE(strangers.front().is_closed_within(kPatience));
  rank.prove();
  EXPECT_EQ(rank.receive_answer().status, StoreAnswer::Status::done);
  // Where all have said hello, the oldest goes, so that they do not keep others out.
  std::list<RawStoreClient> greeted;
  for (std::size_t i = 0; i < 2 * kMost; ++i) greeted.emplace_back(server.address()).say_hello();
  EXPECT_TRUE(greeted.front().is_closed_within(kPatience));
  RawStoreClient(server.address()).enter();
}

// Each connection of a client of this machine succeeds at the first try, whatever happens at the
// port.
TEST(StoreAttackTest, AFloodAtThePortDoesNotReachClientsOfThisMachine) {
  const testing::StoreProcess server({.most_strangers = 1});
  std::atomic<bool> is_over = false;
  std::vector<std::thread> attackers;
  for (int i = 0; i < 4; ++i)
    attackers.emplace_back([&] {
      std::list<RawStoreClient> kept;
      while (!is_over) try {
          kept.emplace_back(server.address());
          if (kept.size() > 64) kept.pop_front();
          std::this_thread::sleep_for(std::chrono::microseconds(200));  // some time for the clients
        } catch (const Error&) {                                        // no port is free
          kept.clear();
        }
    });
  for (int i = 0; i < 200; ++i) {
    StoreConnection client(server.address(), kPatience);
    EXPECT_TRUE(client.is_local());
    const StoreAnswer answer =
        client.ask({.operation = Operation::add, .name = "sum", .amount = 1}, kPatience);
    EXPECT_EQ(answer.text, std::to_string(i + 1));
  }
  is_over = true;
  for (std::thread& attacker : attackers) attacker.join();
}

// Another user's process uses the port, even if it knows the secret.
TEST(StoreAttackTest, OnlyTheServersUserMayUseItsUnixSocket) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to be two users";
  const testing::StoreProcess server;
  EXPECT_TRUE(StoreConnection(server.address(), kPatience).is_local());
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (setresuid(kNobody, kNobody, kNobody) != 0) _exit(2);
    try {
      StoreConnection stranger(server.address(), kPatience);
      stranger.ask({.operation = Operation::set, .name = "here", .value = "by the port"},
                   kPatience);
      _exit(stranger.is_local() ? 1 : 0);
    } catch (...) {
      _exit(3);
    }
  }
  int status = -1;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) GTEST_SKIP() << "there is only one user";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Store(server.address()).get("here"), "by the port");
}

// --- Clients that break a rule ---

TEST(StoreAttackTest, ASealedPayloadCountsOnceAndUnchanged) {
  const StoreServer server;
  Store store(server.address());
  const auto add = StoreRequest{.operation = Operation::add, .name = "sum", .amount = 1};
  RawStoreClient repeats(server.address());
  repeats.enter();
  const std::string sealed = repeats.sealed(add);
  repeats.send_frame(sealed);
  EXPECT_EQ(repeats.receive_answer().text, "1");
  repeats.send_frame(sealed);
  EXPECT_TRUE(repeats.is_closed_within(kPatience));
  for (const std::size_t place : {0, 5, 20}) {
    RawStoreClient changes(server.address());
    changes.enter();
    std::string changed = changes.sealed(add);
    changed[place] = static_cast<char>(changed[place] ^ 1);
    changes.send_frame(changed);
    EXPECT_TRUE(changes.is_closed_within(kPatience));
  }
  EXPECT_EQ(store.add("sum", 0), 1);
}

TEST(StoreAttackTest, FramesOfClientsAreBoundedToo) {
  const StoreServer server;
  for (const std::size_t size :
       {std::size_t{0}, kMostPayloadBytes + kMacBytes + 1, std::size_t{0xffffffff}}) {
    RawStoreClient client(server.address());
    client.enter();
    client.send(frame_header(size));
    EXPECT_TRUE(client.is_closed_within(kPatience));
  }
}

TEST(StoreAttackTest, AHalfRequestHasLittleTimeAndAnIdleClientAsLongAsItLikes) {
  const StoreServer server({}, StoreLimits{.time_to_finish_frame = milliseconds(300)});
  RawStoreClient idle(server.address()), half(server.address());
  idle.enter();
  half.enter();
  half.send(frame_header(100) + "half");
  EXPECT_TRUE(half.is_closed_within(kPatience));
  idle.send_frame(idle.sealed(set_request("idle", "no more")));
  EXPECT_EQ(idle.receive_answer().status, StoreAnswer::Status::done);
}

// --- Many clients ---

int num_threads_of(pid_t process) {
  std::ifstream status(concat("/proc/", process, "/status"));
  for (std::string word; status >> word;)
    if (int number = 0; word == "Threads:" && status >> number) return number;
  return -1;
}

TEST(StoreAttackTest, AThousandClientsWaitAtTheCostOfNoThread) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const testing::StoreProcess server;
  const int num_threads = num_threads_of(server.process());
  std::list<RawStoreClient> clients;
  for (int i = 0; i < 1024; ++i) {
    clients.emplace_back(server.address()).enter();
    clients.back().send_frame(clients.back().sealed({.name = "go", .wait = kPatience * 10}));
  }
  Store store(server.address());
  EXPECT_EQ(store.find("go"), std::nullopt);
  EXPECT_EQ(num_threads_of(server.process()), num_threads);
  store.set("go", "now");
  for (RawStoreClient& client : clients) EXPECT_EQ(client.receive_answer().text, "now");
}

std::ptrdiff_t num_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST(StoreAttackTest, AClientThatIsGoneWaitsNoLonger) {
  const StoreServer server;
  Store store(server.address());
  const std::ptrdiff_t num_before = num_descriptors();
  {
    std::list<RawStoreClient> clients;
    for (int i = 0; i < 32; ++i) {
      clients.emplace_back(server.address()).enter();
      clients.back().send_frame(clients.back().sealed({.name = "never", .wait = kPatience * 100}));
    }
    RawStoreClient& kept = clients.front();
    store.set("other", "");  // the requests that were sent before have arrived
    std::list<RawStoreClient> gone;
    gone.splice(gone.end(), clients, std::next(clients.begin()), clients.end());
    gone.clear();
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (num_descriptors() > num_before + 2 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(num_descriptors(), num_before + 2);  // both ends of the one that still waits
    store.set("never", "after all");
    EXPECT_EQ(kept.receive_answer().text, "after all");
    kept.send_frame(kept.sealed({.name = "never"}));
    EXPECT_EQ(kept.receive_answer().text, "after all");
  }
}

// --- A hostile server ---

// The client's data must not help a hostile server: it gets neither the token nor a proof.
TEST(StoreAttackTest, AStrangerOnThePortLearnsNothing) {
  const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof own;
  auto* const any = reinterpret_cast<sockaddr*>(&own);
  ASSERT_TRUE(bind(listener.number(), any, size) == 0 && listen(listener.number(), 1) == 0 &&
              getsockname(listener.number(), any, &size) == 0);
  const StoreAddress address{.port = ntohs(own.sin_port), .token = make_token()};
  std::string heard;
  std::thread stranger([&] {
    const Descriptor client(accept(listener.number(), nullptr, nullptr));
    const std::string challenge = frame_header(64) + std::string(64, 'c');
    send(client.number(), challenge.data(), challenge.size(), MSG_NOSIGNAL);
    char bytes[1024];
    for (ssize_t count; (count = recv(client.number(), bytes, sizeof bytes, 0)) > 0;)
      heard.append(bytes, static_cast<std::size_t>(count));
  });
  expect_throws<CollectiveError>([&] { Store client(address); },
                                 "must have this job's token; got one of another job");
  stranger.join();
  EXPECT_EQ(heard.size(), kFrameHeaderBytes + kStoreMagic.size() + sizeof(StoreNonce));
  EXPECT_EQ(heard.find(address.token), std::string::npos);
}

// --- Forked children ---

int status_of_child(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    std::exit(0);  // with the destructors of static objects
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(StoreAttackTest, AForkedChildThatEndsLeavesTheParentsStoreAlone) {
  static auto server = std::make_unique<StoreServer>();
  static auto store = std::make_unique<Store>(server->address());
  store->set("parent", "first");
  std::thread waits([] { EXPECT_EQ(Store(server->address()).get("late"), "came"); });
  EXPECT_EQ(status_of_child([] {}), 0);
  EXPECT_EQ(status_of_child([] {
              store->set("child", store->get("parent"));  // by a connection of its own
              store.reset();
              server.reset();
            }),
            0);
  EXPECT_EQ(store->get("child"), "first");
  EXPECT_EQ(store->add("sum", 1), 1);
  Store(server->address()).set("late", "came");
  waits.join();
  store.reset();
  server.reset();
}

}  // namespace
}  // namespace ringrad
