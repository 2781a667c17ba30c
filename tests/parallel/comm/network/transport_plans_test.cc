// Every plan over a transport whose receivers read the senders' memory, as late as they may: a
// chunk that was written while it was being sent would be seen.

#include "ringrad/parallel/comm/network/transport_plans.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "ringrad/parallel/comm/network/transport_communicator.h"
#include "ringrad/parallel/comm/store/store_server.h"
#include "ringrad/tests/parallel/comm/backend_suite.h"
#include "ringrad/tests/parallel/comm/checked_collectives.h"
#include "ringrad/tests/parallel/comm/options_with.h"
#include "ringrad/tests/parallel/plan/collective/every_plan.h"

namespace ringrad {
namespace {

using testing::error_of;
using testing::expect_contains;
using testing::expect_exact;
using testing::options_with;

// What the ranks of a group share: the messages of each channel, in order.
struct Wire {
  struct Message {
    std::span<const std::byte> data;
    bool is_taken = false;
  };
  using Line = std::tuple<int, int, Channel>;  // from, to

  std::mutex mutex;
  std::condition_variable changed;
  std::map<Line, std::deque<Message>> messages;

  template <class Condition>
  void wait(TransportCall& call, std::unique_lock<std::mutex>& lock, Condition condition) {
    while (!changed.wait_for(lock, std::chrono::milliseconds(10), condition)) call.check();
  }
};

class Sent final : public Transfer {
 public:
  Sent(Wire& wire, Wire::Message& message) : wire_(wire), message_(message) {}
  void wait(TransportCall& call) override {
    std::unique_lock lock(wire_.mutex);
    wire_.wait(call, lock, [&] { return message_.is_taken; });
  }

 private:
  Wire& wire_;
  Wire::Message& message_;
};

class Awaited final : public Transfer {
 public:
  Awaited(Wire& wire, std::deque<Wire::Message>& line, std::size_t number,
          std::span<std::byte> place)
      : wire_(wire), line_(line), number_(number), place_(place) {}
  void wait(TransportCall& call) override {
    std::unique_lock lock(wire_.mutex);
    wire_.wait(call, lock, [&] { return line_.size() > number_; });
    Wire::Message& message = line_[number_];
    ASSERT_EQ(message.data.size(), place_.size());
    std::memcpy(place_.data(), message.data.data(), place_.size());
    message.is_taken = true;
    wire_.changed.notify_all();
  }

 private:
  Wire& wire_;
  std::deque<Wire::Message>& line_;
  const std::size_t number_;
  const std::span<std::byte> place_;
};

class WireTransport final : public Transport {
 public:
  WireTransport(Wire& wire, int rank) : wire_(wire), rank_(rank) {}

  std::unique_ptr<Transfer> send(const std::byte* data, std::size_t bytes, int to, Channel channel,
                                 std::vector<Tensor>) override {
    const std::lock_guard lock(wire_.mutex);
    auto& message =
        wire_.messages[{rank_, to, channel}].emplace_back(Wire::Message{std::span(data, bytes)});
    wire_.changed.notify_all();
    return std::make_unique<Sent>(wire_, message);
  }
  std::unique_ptr<Transfer> recv(std::byte* data, std::size_t bytes, int from, Channel channel,
                                 std::vector<Tensor>) override {
    const std::lock_guard lock(wire_.mutex);
    return std::make_unique<Awaited>(wire_, wire_.messages[{from, rank_, channel}],
                                     next_[{from, channel}]++, std::span(data, bytes));
  }
  std::unique_ptr<Transport> split(Store&, const std::vector<int>&, int, const std::string&,
                                   Where) override {
    throw std::logic_error("not split here");
  }
  bool outlives_ranks() const override { return false; }

 private:
  Wire& wire_;
  const int rank_;
  std::map<std::pair<int, Channel>, std::size_t> next_;
};

// The options may differ between ranks.
template <class Body, class OptionsOf>
void on_wires(int world_size, OptionsOf options_of, Body body) {
  static const StoreServer server;
  static int groups = 0;
  const std::string name = concat("wires", groups++);
  Wire wire;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world_size; ++rank)
    ranks.emplace_back([&, rank] {
      TransportOptions options;
      static_cast<GroupOptions&>(options) = options_of(rank);
      options.largest_piece = 1000;
      const Store store(server.address());
      const auto comm = make_transport_communicator(
          store, name, rank, world_size,
          world_size == 1 ? nullptr : std::make_unique<WireTransport>(wire, rank), options,
          Where::current());
      body(*comm);
    });
  for (std::thread& rank : ranks) rank.join();
}

void expect_right(Communicator& comm, Collective collective, int root) {
  for (const std::int64_t count : {0, 1, 7, 259, 1500})
    expect_exact(comm, {collective, DType::float32, ReduceOp::sum, root, count});
  expect_exact(comm, {collective, DType::bfloat16, ReduceOp::mean, root, 101});
}

TEST(TransportPlansTest, EveryPlanIsCarriedOut) {
  for (const Collective collective : kAllCollectives)
    for (const int n : {1, 2, 3, 4, 6})
      for_every_plan(collective, n, [&](const CollectivePlan& plan) {
        SCOPED_TRACE(::testing::Message() << name(collective) << ' ' << plan.algorithm << ' ' << n);
        const GroupOptions options = options_with(plan);
        on_wires(
            n, [&](int) { return options; },
            [&](Communicator& comm) { expect_right(comm, collective, plan.root); });
      });
}

TEST(TransportPlansTest, EveryAlgorithmIsMadeByTheRankAlone) {
  for (const Collective collective : kAllCollectives)
    for (const std::string& algorithm : algorithm_names(collective)) {
      SCOPED_TRACE(algorithm);
      GroupOptions options = options_with(collective, algorithm);
      options.segments = 2;
      on_wires(
          4, [&](int) { return options; },
          [&](Communicator& comm) { expect_right(comm, collective, 3); });
    }
}

TEST(TransportPlansTest, TakesAlgorithmsThatAddInTheGroupsOrder) {
  for (const SumOrder order : {SumOrder::canonical, SumOrder::tree, SumOrder::fast}) {
    GroupOptions options;
    options.order = order;
    on_wires(
        4, [&](int) { return options; },
        [&](Communicator& comm) {
          for (const Collective collective : kAllCollectives) expect_right(comm, collective, 1);
        });
  }
}

TEST(TransportPlansTest, RanksWithDifferentPlansAreToldSo) {
  on_wires(
      3,
      [](int rank) { return options_with(Collective::all_reduce, rank == 2 ? "ring" : "chain"); },
      [](Communicator& comm) {
        expect_contains(error_of([&] { comm.all_reduce(ones({8})); }),
                        "all ranks must make the same call");
        EXPECT_EQ(comm.failed_rank(), 2);
      });
}

TEST(TransportPlansTest, RefusesAPlanThatIsWrong) {
  const Planner planner = [](int n, const PlanOptions&) {
    return empty_plan(Collective::all_reduce, "nothing", n);
  };
  on_wires(
      2, [&](int) { return options_with(Collective::all_reduce, planner); },
      [](Communicator& comm) { EXPECT_THROW(comm.all_reduce(ones({8})), ValueError); });
}

}  // namespace
}  // namespace ringrad
