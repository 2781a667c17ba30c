#include "ringrad/parallel/plan/draw/collective_frames.h"

#include <gtest/gtest.h>

#include "ringrad/parallel/plan/collective/ring_plan.h"
#include "ringrad/parallel/plan/draw/draw_collective.h"
#include "ringrad/tests/parallel/plan/collective/every_plan.h"
#include "ringrad/tests/parallel/plan/refused.h"

namespace ringrad {
namespace {

const std::vector<int>& held(const CollectivePlan& plan, const CollectiveFrame& frame, int rank,
                             int chunk) {
  return frame.ranks[static_cast<std::size_t>(rank * plan.num_chunks + chunk)];
}

TEST(CollectiveFramesTest, EveryPlanEndsWithWhatItPromises) {
  for (const Collective collective : kCollectives)
    for (int n = 1; n <= 6; ++n)
      for_every_plan(collective, n, [](const CollectivePlan& plan) {
        const CollectiveFrames film = collective_frames(plan);
        EXPECT_FALSE(film.fault);
        EXPECT_EQ(film.frames.size(), static_cast<std::size_t>(num_steps(plan)) + 1) << plan;
        for (std::size_t at = 0; at < film.promised.size(); ++at)
          if (!film.promised[at].empty()) {
            EXPECT_EQ(film.frames.back().ranks[at], film.promised[at]) << plan;
          }
      });
}

TEST(CollectiveFramesTest, EveryMessageIsInOneFrame) {
  for (const Collective collective : kCollectives)
    for_every_plan(collective, 4, [](const CollectivePlan& plan) {
      std::size_t shown = 0, sent = 0;
      for (const CollectiveFrame& frame : collective_frames(plan).frames)
        shown += frame.messages.size();
      for (const Step& step : plan.steps) sent += is_send(step.op);
      EXPECT_EQ(shown, sent) << plan;
    });
}

// Rank r sends chunk c in step s if c = r - 1 - s, as in ring_plan.h; its neighbour then has one
// more.
TEST(CollectiveFramesTest, ARingAddsOneRankAStep) {
  const CollectivePlan plan = ring_all_reduce(4);
  const CollectiveFrames film = collective_frames(plan);
  for (int s = 1; s <= 3; ++s)
    for (const FrameMessage& message : film.frames[s].messages) {
      EXPECT_TRUE(message.adds);
      EXPECT_EQ(message.to, (message.from + 1) % 4);
      EXPECT_EQ(held(plan, film.frames[s], message.to, message.chunk).size(), s + 1u);
    }
  for (int s = 4; s <= 6; ++s)
    for (const FrameMessage& message : film.frames[s].messages) {
      EXPECT_FALSE(message.adds);
      EXPECT_EQ(held(plan, film.frames[s], message.to, message.chunk).size(), 4u);
    }
}

TEST(CollectiveFramesTest, APlanThatFailsEndsWhereItDoes) {
  CollectivePlan twice = empty_plan(Collective::all_reduce, "twice", 2);
  for (int s = 0; s < 3; ++s) {
    twice.send(s, s % 2, 0, 1 - s % 2);
    twice.recv_reduce(s, 1 - s % 2, 0, {0, 1});
  }
  const CollectiveFrames film = collective_frames(twice);
  ASSERT_TRUE(film.fault);
  EXPECT_EQ(film.fault->fault, PlanFault::duplicate);
  ASSERT_EQ(film.frames.size(), 3u);  // the beginning, steps 0 and 1
  EXPECT_EQ(held(twice, film.frames[1], 1, 0), (std::vector{0, 1}));
  for (const std::string& drawn : {collective_svg(twice), collective_html(twice)})
    EXPECT_NE(drawn.find("duplicate: step 1, rank 0"), std::string::npos);

  CollectivePlan stuck = empty_plan(Collective::broadcast, "stuck", 2);
  stuck.recv(0, 1, 0, 0);
  EXPECT_EQ(collective_frames(stuck).fault->fault, PlanFault::deadlock);
  CollectivePlan too_little = empty_plan(Collective::broadcast, "nothing", 2);
  EXPECT_EQ(collective_frames(too_little).fault->fault, PlanFault::wrong_result);
  for (const CollectivePlan& plan : {stuck, too_little}) {
    EXPECT_FALSE(collective_svg(plan).empty());
    EXPECT_FALSE(collective_html(plan).empty());
  }
}

TEST(CollectiveFramesTest, RanksAreWrittenAsRanges) {
  EXPECT_EQ(ranks_label({}), "");
  EXPECT_EQ(ranks_label({3}), "{3}");
  EXPECT_EQ(ranks_label({0, 1}), "{0,1}");
  EXPECT_EQ(ranks_label({0, 2, 3}), "{0,2,3}");
  EXPECT_EQ(ranks_label({0, 1, 2, 3, 6, 7}), "{0-3,6,7}");
}

TEST(CollectiveFramesTest, RefusesWhatHasNoShape) {
  CollectivePlan plan = empty_plan(Collective::all_reduce, "mine", 2);
  plan.send(0, 0, 0, 7);
  for (const auto draw : {collective_svg, collective_html})
    expect_refused([&] { draw(plan); }, "peers must be in [0, 2); got 7");
  expect_refused([] { collective_svg(ring_all_reduce(17)); },
                 "at most 16 ranks and 256 chunks; got 17 and 17");
}

}  // namespace
}  // namespace ringrad
