// A communicator over a library that fails on one rank, in a way that no library reports by itself.

#include "ringrad/parallel/comm/network/transport_communicator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <new>
#include <thread>

#include "ringrad/parallel/comm/store/store_server.h"
#include "ringrad/tests/parallel/comm/backend_suite.h"
#include "ringrad/tests/parallel/comm/patience.h"

namespace ringrad {
namespace {

using Clock = std::chrono::steady_clock;
using testing::error_of;
using testing::expect_contains;

// Rank 1 is out of memory; any other rank waits for it.
class BrokenTransfer final : public Transfer {
 public:
  explicit BrokenTransfer(int rank) : rank_(rank) {}
  void wait(TransportCall& call) override {
    if (rank_ == 1) throw std::bad_alloc();
    for (;;) {
      call.check();
      std::this_thread::yield();
    }
  }

 private:
  const int rank_;
};

// Moves nothing.
class BrokenTransport final : public Transport {
 public:
  explicit BrokenTransport(int rank) : rank_(rank) {}

  std::unique_ptr<Transfer> send(const std::byte*, std::size_t, int, Channel,
                                 std::vector<Tensor>) override {
    if (rank_ == 1) throw std::bad_alloc();
    return std::make_unique<BrokenTransfer>(rank_);
  }
  std::unique_ptr<Transfer> recv(std::byte*, std::size_t, int, Channel,
                                 std::vector<Tensor>) override {
    return std::make_unique<BrokenTransfer>(rank_);
  }
  std::unique_ptr<Transport> split(Store&, const std::vector<int>&, int, const std::string&,
                                   Where) override {
    throw std::bad_alloc();
  }
  bool outlives_ranks() const override { return true; }

 private:
  const int rank_;
};

// `body` throws bad_alloc on rank 1, and on rank 0 the error of its part of the call.
template <class Body>
void expect_failure_of_rank_1(Body body, std::string_view expected) {
  const StoreServer server;
  const auto begin = Clock::now();
  const auto run_rank = [&](int rank) {
    const Store store(server.address());
    const auto comm = make_transport_communicator(
        store, "broken", rank, 2, std::make_unique<BrokenTransport>(rank), {}, Where::current());
    if (rank == 1) {
      EXPECT_THROW(body(*comm), std::bad_alloc);
    } else {
      expect_contains(error_of([&] { body(*comm); }), expected);
      EXPECT_EQ(comm->failed_rank(), 1);
    }
  };
  std::thread first(run_rank, 0), second(run_rank, 1);
  first.join();
  second.join();
  EXPECT_LT(Clock::now() - begin, testing::kPatience);
}

TEST(TransportCommunicatorTest, AnExceptionOfAnyKindBreaksTheGroup) {
  expect_failure_of_rank_1([](Communicator& comm) { comm.all_reduce(ones({8})); },
                           "all_reduce(sum, float32, 8 elements) #1 on rank 0: the group must be "
                           "whole; got a failure of rank 1: all_reduce ended with std::bad_alloc");
}

TEST(TransportCommunicatorTest, AMessageThatCannotBeSentBreaksTheGroup) {
  expect_failure_of_rank_1(
      [](Communicator& comm) {
        if (comm.rank() == 1)
          comm.send(ones({8}), 0);
        else
          comm.recv(ones({8}), 1);
      },
      "got a failure of rank 1: send ended with std::bad_alloc");
}

}  // namespace
}  // namespace ringrad
