#include "ringrad/parallel/comm/communication_stream.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <optional>
#include <thread>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/tests/num_gpus.h"
#include "ringrad/tests/parallel/comm/patience.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

TEST(CommunicationStreamTest, WorkGoesOnBesideTheCallerInOrder) {
  run_ranks(2, [](Communicator& comm) {
    CommunicationStream stream(comm, Device(), /*overlaps=*/true);
    std::promise<void> caller_went_on;
    std::vector<int> order;
    const Work first = stream.run("first", [&](Communicator&) {
      caller_went_on.get_future().wait();
      order.push_back(1);
    });
    const Tensor x = full({4}, comm.rank() + 1);
    const Work second = stream.run("second", [&](Communicator& on_stream) {
      on_stream.all_reduce(x);
      order.push_back(2);
    });
    EXPECT_FALSE(first.is_done());
    EXPECT_FALSE(second.is_done());
    caller_went_on.set_value();
    second.wait();
    EXPECT_TRUE(first.is_done());
    first.wait();
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(4, 3));
  });
}

TEST(CommunicationStreamTest, WithoutOverlapWorkIsDoneAtOnceOnTheCallersThread) {
  run_ranks(1, [](Communicator& comm) {
    CommunicationStream stream(comm, Device(), /*overlaps=*/false);
    std::thread::id where;
    const Work work =
        stream.run("here", [&](Communicator&) { where = std::this_thread::get_id(); });
    EXPECT_TRUE(work.is_done());
    EXPECT_EQ(where, std::this_thread::get_id());
    EXPECT_THROW(
        stream.run("failing", [](Communicator&) { throw ValueError("told to", Where::current()); }),
        ValueError);
  });
}

TEST(CommunicationStreamTest, EveryWaitThrowsTheErrorAndTheStreamGoesOn) {
  run_ranks(2, [](Communicator& comm) {
    CommunicationStream stream(comm, Device(), true);
    const Work failing =
        stream.run("failing", [](Communicator&) { throw ValueError("told to", Where::current()); });
    for (int i = 0; i < 2; ++i) expect_throws<ValueError>([&] { failing.wait(); }, "told to");
    EXPECT_TRUE(failing.is_done());
    const Tensor x = ones({1});
    stream.run("next", [&](Communicator& on_stream) { on_stream.all_reduce(x); }).wait();
    EXPECT_EQ(x.item<float>(), 2);
  });
}

// A rank whose second task fails must not begin its third task, which would meet another rank's
// second task.
TEST(CommunicationStreamTest, WorkAfterAFailureFailsWithItUntilACallerKnows) {
  run_ranks(1, [](Communicator& comm) {
    CommunicationStream stream(comm, Device(), true);
    std::promise<void> all_are_queued;
    int num_begun = 0;
    const auto count = [&](Communicator&) { ++num_begun; };
    const auto fail = [](Communicator&) { throw ValueError("told to", Where::current()); };
    const Work first =
        stream.run("first", [&](Communicator&) { all_are_queued.get_future().wait(); });
    const Work failing = stream.run("failing", fail), queued = stream.run("queued", count);
    all_are_queued.set_value();
    first.wait();
    while (!failing.is_done()) std::this_thread::yield();
    const Work later = stream.run("later", count);
    EXPECT_TRUE(queued.is_done());
    EXPECT_TRUE(later.is_done());
    for (const Work& work : {later, queued, failing})
      expect_throws<ValueError>([&] { work.wait(); }, "told to");
    EXPECT_EQ(num_begun, 0);
    stream.run("afterwards", count).wait();
    EXPECT_EQ(num_begun, 1);
  });
}

TEST(CommunicationStreamTest, WorksOutliveTheStream) {
  run_ranks(1, [](Communicator& comm) {
    Work work;
    {
      CommunicationStream stream(comm, Device(), true);
      work = stream.run("short", [](Communicator&) {});
    }
    work.wait();
    EXPECT_TRUE(work.is_done());
  });
}

// Rank 0's stream waits for rank 1, which never arrives. The group must break at once, not at its
// deadline.
TEST(CommunicationStreamTest, ARankThatFailsBreaksTheGroupOfItsStream) {
  const auto begin = std::chrono::steady_clock::now();
  expect_throws<ValueError>(
      [] {
        run_ranks(2, [](Communicator& comm) {
          CommunicationStream stream(comm, Device(), true);
          const Tensor x = ones({100000});
          if (comm.rank() == 0) {
            const Work work =
                stream.run("sum", [x](Communicator& on_stream) { on_stream.all_reduce(x); });
            throw ValueError("told to fail", Where::current());
          }
          EXPECT_THROW(comm.recv(x, 0), CollectiveError);
        });
      },
      "rank 0: told to fail");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, testing::kPatience);
}

TEST(CommunicationStreamTest, AnExceptionAfterAllWorkIsDoneLeavesTheGroupAlone) {
  run_ranks(2, [](Communicator& comm) {
    try {
      CommunicationStream stream(comm, Device(), true);
      const Tensor x = ones({1});
      stream.run("sum", [&](Communicator& on_stream) { on_stream.all_reduce(x); }).wait();
      throw ValueError("told to stop early", Where::current());
    } catch (const ValueError&) {
    }
    comm.barrier();
  });
}

TEST(CommunicationStreamTest, TwoStreamsOfOneCommunicatorWorkInOneOrder) {
  run_ranks(2, [](Communicator& comm) {
    CommunicationStream one(comm, Device(), true);
    std::optional<CommunicationStream> other(std::in_place, comm, Device(), true);
    std::promise<void> both_are_given;
    const Tensor x = full({4}, comm.rank()), y = full({4}, 10 * comm.rank());
    const Work first = one.run("first", [&](Communicator& on_stream) {
      both_are_given.get_future().wait();
      on_stream.all_reduce(x);
    });
    const Work second = other->run("second", [&](Communicator& on_stream) {
      EXPECT_TRUE(x.to_vector<float>() == std::vector<float>(4, 1)) << "the first is done";
      on_stream.all_reduce(y);
    });
    both_are_given.set_value();
    second.wait();
    EXPECT_TRUE(first.is_done());
    EXPECT_EQ(y.to_vector<float>(), std::vector<float>(4, 10));
    EXPECT_EQ(one.take_times().waited_s, 0) << "each has its own";
    EXPECT_GT(other->take_times().work_s, 0);
    other.reset();
    one.run("goes on", [&](Communicator& on_stream) { on_stream.all_reduce(x); }).wait();
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(4, 2));
  });
}

TEST(CommunicationStreamTest, TimesSayHowLongItWorkedAndWasWaitedFor) {
  run_ranks(1, [](Communicator& comm) {
    for (const bool overlaps : {true, false}) {
      CommunicationStream stream(comm, Device(), overlaps);
      const auto busy = [](Communicator&) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
        while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
      };
      stream.run("busy", busy).wait();
      const auto times = stream.take_times();
      EXPECT_GE(times.work_s, 0.02);
      EXPECT_GT(times.waited_s, 0);
      EXPECT_TRUE(overlaps || times.waited_s == times.work_s);
      EXPECT_EQ(stream.take_times().work_s, 0);
    }
  });
}

// Returns work whose task has failed, and that no thread has waited for.
Work failed_work(CommunicationStream& stream, const char* why) {
  const Work work =
      stream.run("failing", [why](Communicator&) { throw ValueError(why, Where::current()); });
  while (!work.is_done()) std::this_thread::yield();
  return work;
}

TEST(CommunicationStreamTest, AWaitForAnOldFailureLeavesANewOne) {
  run_ranks(1, [](Communicator& comm) {
    CommunicationStream stream(comm, Device(), /*overlaps=*/true);
    const Work first = failed_work(stream, "first");
    expect_throws<ValueError>([&] { first.wait(); }, "first");
    const Work second = failed_work(stream, "second");
    expect_throws<ValueError>([&] { first.wait(); }, "first");
    const Work third = stream.run("third", [](Communicator&) {});
    expect_throws<ValueError>([&] { third.wait(); }, "second");
    stream.run("fourth", [](Communicator&) {}).wait();
  });
}

TEST(CommunicationStreamTest, AStreamThatEndsLeavesAFailureToOthersOfItsQueue) {
  run_ranks(1, [](Communicator& comm) {
    CommunicationStream stream(comm, Device(), /*overlaps=*/true);
    {
      CommunicationStream other(comm, Device(), /*overlaps=*/true);
      failed_work(stream, "first");
      other.run("later", [](Communicator&) {});
    }
    const Work next = stream.run("next", [](Communicator&) {});
    expect_throws<ValueError>([&] { next.wait(); }, "first");
  });
}

TEST(CommunicationStreamTest, AForkedChildGetsAnErrorAndEnds) {
  run_ranks(1, [](Communicator& comm) {
    CommunicationStream stream(comm, Device(), /*overlaps=*/true);
    std::promise<void> child_has_ended;
    const Work work =
        stream.run("busy", [&](Communicator&) { child_has_ended.get_future().wait(); });
    const pid_t child = fork();
    if (child == 0) {
      constexpr const char* kRefusal = "it serves the process that made it";
      expect_throws<CollectiveError>([&] { work.wait(); }, kRefusal);
      expect_throws<CollectiveError>([&] { stream.run("more", [](Communicator&) {}); }, kRefusal);
      stream.~CommunicationStream();
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    child_has_ended.set_value();
    work.wait();
  });
}

// On GPUs, the caller's stream waits and the caller does not. Work queued on that stream earlier
// runs before the communication.
TEST(CommunicationStreamTest, OnGpusWorkIsQueuedOnAStreamOfItsOwn) {
  if (testing::num_gpus() < 2) GTEST_SKIP() << "needs two GPUs";
  run_ranks(2, [](Communicator& comm) {
    const Device gpu(DeviceType::cuda, comm.rank());
    const DefaultDeviceGuard guard(gpu);
    CommunicationStream stream(comm, gpu, true);
    for (int i = 1; i <= 3; ++i) {
      const Tensor x = full({1000}, i + comm.rank());
      Stream used = current_stream(gpu);
      const Work work = stream.run("sum", [&](Communicator& on_stream) {
        used = current_stream(gpu);
        on_stream.all_reduce(x);
      });
      EXPECT_FALSE(used == current_stream(gpu));
      work.wait();
      const Tensor y = kernels::clone(x);  // on the caller's stream
      EXPECT_EQ(y.to_vector<float>(), std::vector<float>(1000, static_cast<float>(2 * i + 1)));
    }
    const auto times = stream.take_times();
    EXPECT_GT(times.work_s, 0);
    EXPECT_LE(times.waited_s, times.work_s);
  });
}

}  // namespace
}  // namespace ringrad
