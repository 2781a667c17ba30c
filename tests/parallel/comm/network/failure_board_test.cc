#include "ringrad/parallel/comm/network/failure_board.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "ringrad/parallel/comm/common/culprit_report.h"
#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/job/message_stream.h"
#include "ringrad/parallel/comm/store/store_server.h"
#include "ringrad/tests/foreign_numbers.h"
#include "ringrad/tests/parallel/comm/patience.h"
#include "ringrad/tests/parallel/comm/store/store_process.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

// The store's values come from other ranks. Whatever they are, the survivor's message names the
// rank and shows the value.
class FailureBoardTest : public ::testing::Test {
 protected:
  void expect_judgement(const std::string& expected, int world_size = 2) {
    GroupOptions options;
    options.deadline = std::chrono::seconds(10);
    FailureBoard board(
        store_.another(std::chrono::seconds(10)), "group", 0, world_size, options, [] {}, nullptr,
        Where::current());
    board.begin_call(true);
    const Operation operation{{.op = CollectiveOp::barrier}, 0, 1, Where::current(), {}};
    expect_throws<CollectiveError>([&] { board.investigate(operation, "a connection that ended"); },
                                   expected);
    culprit_ = board.failure().culprit;
  }

  int culprit_ = 0;  // of the last judgement

  const StoreServer server_;
  Store store_{server_.address()};
};

TEST_F(FailureBoardTest, AnAnswerThatIsNoNumberIsItsRanks) {
  store_.set("group/rank1", "seven\x1b[2J");
  expect_judgement("rank 1 must tell how many calls it has entered; got \"seven\\x1b[2J\"");
}

TEST_F(FailureBoardTest, ANumberThatFitsNowhereIsNone) {
  store_.set("group/rank1", "99999999999999999999");
  expect_judgement("rank 1 must tell how many calls it has entered; got \"99999999999999999999\"");
}

TEST_F(FailureBoardTest, AJudgementThatIsNoneIsShown) {
  store_.set("group/failure", "nonsense");
  expect_judgement("the store must hold a failure; got \"nonsense\"");
}

// A message needs its peer alone.
TEST_F(FailureBoardTest, OfTheRanksThatHaveLeftOnlyThePeerOfAMessageIsBlamed) {
  GroupOptions options;
  options.deadline = testing::kShortDeadline;
  for (const CollectiveOp op : {CollectiveOp::recv, CollectiveOp::send}) {
    const std::string group = op == CollectiveOp::recv ? "receives" : "sends";
    store_.set(group + "/rank1", "0");
    store_.set(group + "/rank2", "left");
    FailureBoard board(
        store_.another(std::chrono::seconds(10)), group, 0, 3, options, [] {}, nullptr,
        Where::current());
    std::this_thread::sleep_until(board.begin_call(false));
    const Operation operation{{.op = op, .peer = 1}, 0, 1, Where::current(), {}};
    expect_throws<CollectiveError>(
        [&] { board.investigate(operation, "a timeout"); },
        op == CollectiveOp::recv ? "rank 1 must send within " : "rank 1 must receive within ");
    EXPECT_EQ(board.failure().culprit, 1);
  }
}

// Rank 0 has waited for rank 1 for a moment. Rank 2 has waited for both in a collective, until its
// deadline.
class LateElsewhereTest : public FailureBoardTest {
 protected:
  void SetUp() override {
    store_.set("group/rank1", "0");
    store_.set("group/rank2", "1 late");
  }
  void expect_judgement_of_recv(const std::string& expected, int culprit) {
    FailureBoard board(
        store_.another(std::chrono::seconds(10)), "group", 0, 3, {}, [] {}, nullptr,
        Where::current());
    board.begin_call(false);
    const Operation receives{{.op = CollectiveOp::recv, .peer = 1}, 0, 1, Where::current(), {}};
    expect_throws<CollectiveError>([&] { board.investigate(receives, "a connection that ended"); },
                                   expected);
    EXPECT_EQ(board.failure().culprit, culprit);
  }
};

TEST_F(LateElsewhereTest, TheLateRankJudges) {
  std::thread rank_2([&, store = store_.another(std::chrono::seconds(10))]() mutable {
    while (!store.find("group/rank0")) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    store.set_first("group/failure", "0 0 barrier() #1 on rank 2: every rank must arrive");
  });
  expect_judgement_of_recv(
      "got a failure of rank 0: barrier() #1 on rank 2: every rank must arrive", 0);
  rank_2.join();
}

TEST_F(LateElsewhereTest, NobodyIsBlamedWhereTheLateRankDoesNotJudge) {
  expect_judgement_of_recv("every rank must finish within 60 s; got a connection that ended", -1);
}

TEST_F(FailureBoardTest, ARankThatIsLateInAMessageIsBlamedForNoCollective) {
  store_.set("group/rank1", "0 late");
  store_.set("group/rank2", "0");
  expect_judgement("every rank must finish within 10 s; got a connection that ended", 3);
  EXPECT_EQ(culprit_, -1);
}

// The launcher learns which rank this process blames, or that no rank is known to be to blame.
class BlameTest : public FailureBoardTest {
 protected:
  void SetUp() override {
    make_non_blocking(pipe_.out);
    ASSERT_EQ(dup2(pipe_.in.number(), kReportDescriptor), kReportDescriptor);
    const std::string variable = report_variable(pipe_.in);
    setenv(kReportVariable, variable.substr(variable.find('=') + 1).c_str(), 1);
    retract_report();
  }
  void TearDown() override {
    close(kReportDescriptor);
    unsetenv(kReportVariable);
  }
  std::optional<int> report() const { return read_report(pipe_.out); }

  const Pipe pipe_ = make_pipe(Where::current());
};

TEST_F(BlameTest, WhereAllHaveCalledNobodyIsBlamed) {
  store_.set("group/rank1", "1");
  expect_judgement("the connections must hold; got a connection that ended");
  EXPECT_EQ(culprit_, -1);
  report_culprit(0);  // a consequence of that failure
  EXPECT_EQ(report(), kNobody);
}

// A rank whose deadline passes first ends the connections of one that is not late yet.
TEST_F(BlameTest, WhoKeepsALateRankWaitingIsBlamed) {
  store_.set("group/rank1", "1 late");
  store_.set("group/rank2", "0");
  expect_judgement("every rank must arrive within 10 s; got no call from rank 2", 3);
  EXPECT_EQ(culprit_, 2);
  EXPECT_EQ(report(), 2);
}

TEST_F(BlameTest, AFailureOfNobodyInTheStoreNamesNobody) {
  store_.set("group/failure", "-1 0 barrier() #1 on rank 1: the connections must hold; got an end");
  expect_judgement(
      "the group must be whole; got a failure of an unknown rank: barrier() #1 on "
      "rank 1: the connections must hold");
  EXPECT_EQ(culprit_, -1);
  EXPECT_EQ(report(), kNobody);
}

TEST_F(BlameTest, ARankThatHasLeftIsBlamed) {
  store_.set("group/rank1", "left");
  expect_judgement("every rank must take part; got rank 1, which has left the group");
  EXPECT_EQ(culprit_, 1);
  EXPECT_EQ(report(), 1);
}

// Joining may take as long as the store's own timeouts allow, even if the time for a verdict is
// short.
TEST(FailureBoardJoinTest, AStoreThatAnswersOneSecondLateIsAwaited) {
  const testing::StoreProcess server;
  Store store(server.address());
  GroupOptions options;
  options.verdict_time = std::chrono::milliseconds(400);
  server.send_signal(SIGSTOP);
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    server.send_signal(SIGCONT);
  });
  EXPECT_NO_THROW(FailureBoard(
      store.another(std::chrono::seconds(20)), "group", 0, 2, options, [] {}, nullptr,
      Where::current()));
  late.join();
}

// The connection already exists; the first question to the store waits.
TEST(FailureBoardJoinTest, AStoreThatStopsAfterConnectingIsAwaited) {
  const testing::StoreProcess server;
  Store store(server.address());
  GroupOptions options;
  options.verdict_time = std::chrono::milliseconds(400);
  Store own = store.another(std::chrono::seconds(20));
  server.send_signal(SIGSTOP);
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    server.send_signal(SIGCONT);
  });
  EXPECT_NO_THROW(FailureBoard(
      std::move(own), "group", 0, 2, options, [] {}, nullptr, Where::current()));
  late.join();
}

TEST_F(FailureBoardTest, AJudgementIsReadInEveryLocale) {
  store_.set("group/failure", "1 2 0 1 rank 1 fell");
  const testing::ForeignNumbers guard;
  expect_judgement("rank 1 fell");
  EXPECT_EQ(culprit_, 1);
}

}  // namespace
}  // namespace ringrad
