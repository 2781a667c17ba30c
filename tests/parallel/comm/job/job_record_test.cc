#include "ringrad/parallel/comm/job/job_record.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>

#include "ringrad/parallel/comm/common/culprit_report.h"

namespace ringrad {
namespace {

using std::chrono::milliseconds;
using Hosts = std::vector<Host>;

constexpr int exited(int code) { return code << 8; }  // statuses as waitpid() gives them
constexpr int killed(int signal) { return signal; }

const Hosts kHere = {{"localhost", 3}};
const Hosts kThree = {{"ha", 1}, {"hb", 2}, {"hc", 1}};

TEST(JobRecordTest, TheFirstFailingEndCounts) {
  JobRecord record(kHere);
  EXPECT_EQ(record.num_running(), 3);
  record.note_end(2, exited(0));
  EXPECT_FALSE(record.failed_at());
  record.add_error(1, "the cause");
  record.note_end(1, exited(7));
  record.note_end(0, exited(5));
  EXPECT_EQ(record.exit_code(), 7);
  EXPECT_EQ(record.report(), "ringrun: rank 1 failed first: exit code 7\nringrun:   the cause\n");
  EXPECT_EQ(record.hosts_left(), (Hosts{{"localhost", 2}}));
  EXPECT_EQ(record.num_running(), 0);
}

TEST(JobRecordTest, ASignalThatFollowsAtOnceIsTheCause) {
  for (const auto& [later, culprit] : {std::pair(milliseconds(200), 1), {milliseconds(300), 0}}) {
    JobRecord record(kHere);
    const auto begin = JobRecord::Clock::now();
    record.note_end(0, exited(3), begin);
    record.note_end(1, killed(SIGSEGV), begin + later);
    EXPECT_EQ(record.exit_code(), culprit == 1 ? 128 + SIGSEGV : 3);
    EXPECT_EQ(record.failed_at(), begin);
  }
}

TEST(JobRecordTest, ARankThatDoesNotEndIsNamedByTheOneThatBlamesIt) {
  JobRecord record(kThree);
  record.add_error(2, "stops itself");
  record.note_blame(0, 2);
  record.add_error(0, "no call from rank 2");
  record.note_end(0, exited(3));
  record.close();
  record.note_end(2, killed(SIGKILL));  // by the launcher
  EXPECT_EQ(record.exit_code(), 3);
  EXPECT_EQ(
      record.report(),
      "ringrun: rank 2 on hb failed first: still running, blamed by rank 0 on ha (exit code 3)\n"
      "ringrun:   stops itself\nringrun:   [0@ha] no call from rank 2\n");
  EXPECT_EQ(record.hosts_left(), (Hosts{{"ha", 1}, {"hb", 1}, {"hc", 1}}));
}

TEST(JobRecordTest, ACulpritThatEndsByItselfSpeaksForItself) {
  JobRecord record(kHere);
  record.note_blame(0, 1);
  record.note_end(0, exited(3));
  record.add_error(1, "the cause");
  record.note_end(1, exited(7));
  EXPECT_EQ(record.exit_code(), 7);
  EXPECT_EQ(record.report(), "ringrun: rank 1 failed first: exit code 7\nringrun:   the cause\n");

  JobRecord as_if_done(kHere);
  as_if_done.note_end(1, exited(0));
  as_if_done.note_blame(0, 1);
  as_if_done.note_end(0, exited(3));
  EXPECT_EQ(as_if_done.exit_code(), 3);
  EXPECT_EQ(as_if_done.report(),
            "ringrun: rank 1 failed first: exit code 0, blamed by rank 0 (exit code 3)\n");
}

TEST(JobRecordTest, BlameIsFollowedToItsEnd) {
  JobRecord record({{"localhost", 4}});
  record.note_blame(0, 2);
  record.note_blame(2, 1);
  record.note_end(0, exited(3));
  record.note_end(2, exited(3));
  EXPECT_EQ(record.report(),
            "ringrun: rank 1 failed first: still running, blamed by rank 0 (exit code 3)\n");
  record.note_blame(1, 1);  // it continues late, and learns that it was evicted
  record.note_end(1, exited(4));
  EXPECT_EQ(record.report(), "ringrun: rank 1 failed first: exit code 4\n");
}

TEST(JobRecordTest, ACircleOfBlameEndsAtTheFirstRanksReport) {
  JobRecord record(kHere);
  record.note_blame(0, 1);
  record.note_blame(1, 2);
  record.note_blame(2, 1);
  record.note_end(0, exited(3));
  EXPECT_EQ(record.report(),
            "ringrun: rank 1 failed first: still running, blamed by rank 0 (exit code 3)\n");
}

TEST(JobRecordTest, BlameThatIsAbsurdOrLateIsIgnored) {
  JobRecord record(kHere);
  record.note_blame(0, 3);
  record.note_blame(0, -2);
  record.note_end(0, exited(3));
  record.close();
  record.note_blame(0, 1);
  EXPECT_EQ(record.report(), "ringrun: rank 0 failed first: exit code 3\n");
}

TEST(JobRecordTest, WhereNobodyIsToBlameNoRankIsLeftOut) {
  JobRecord record(kHere);
  record.note_blame(1, kNobody);
  record.add_error(1, "a connection ended");
  record.note_end(1, exited(3));
  EXPECT_EQ(record.exit_code(), 3);
  EXPECT_EQ(record.report(),
            "ringrun: rank 1 noticed a failure first (exit code 3); no rank is known to be to "
            "blame\nringrun:   a connection ended\n");
  EXPECT_EQ(record.hosts_left(), kHere);

  record.note_end(0, exited(0));
  record.note_end(2, exited(7));  // for a reason of its own, reported after the others noticed
  EXPECT_EQ(record.exit_code(), 7);
  EXPECT_EQ(record.report(), "ringrun: rank 2 failed first: exit code 7\n");
  EXPECT_EQ(record.hosts_left(), (Hosts{{"localhost", 2}}));

  // Rank 0 has seen rank 1 leave; rank 1 knows no culprit either.
  JobRecord blamed(kHere);
  blamed.note_blame(0, 1);
  blamed.note_blame(1, kNobody);
  blamed.note_end(0, exited(3));
  blamed.note_end(1, exited(4));
  EXPECT_EQ(blamed.report(),
            "ringrun: rank 0 noticed a failure first (exit code 3); no rank is known to be to "
            "blame\n");
  EXPECT_EQ(blamed.hosts_left(), kHere);
}

TEST(JobRecordTest, WhereTheFirstRankBlamesNobodyALaterCauseCounts) {
  const auto begin = JobRecord::Clock::now();
  JobRecord in_order({{"localhost", 4}});
  in_order.note_blame(0, kNobody);
  in_order.note_end(0, exited(3), begin);
  in_order.note_end(3, killed(SIGSEGV), begin + milliseconds(1000));
  in_order.note_end(1, exited(9), begin + milliseconds(4000));
  EXPECT_EQ(in_order.exit_code(), 128 + SIGSEGV);
  EXPECT_EQ(in_order.hosts_left(), (Hosts{{"localhost", 3}}));

  JobRecord was_killed(kHere);
  was_killed.note_blame(0, kNobody);
  was_killed.note_blame(2, kNobody);
  was_killed.note_end(0, exited(3), begin);
  was_killed.note_end(2, killed(SIGKILL), begin + milliseconds(1000));
  EXPECT_EQ(was_killed.exit_code(), 128 + SIGKILL);
  EXPECT_EQ(was_killed.hosts_left(), (Hosts{{"localhost", 2}}));

  JobRecord lost(kThree);
  lost.note_blame(0, kNobody);
  lost.note_end(0, exited(3));
  lost.note_lost(1, "its connection ended", {"last word"});
  lost.note_end(3, exited(4));
  EXPECT_EQ(lost.report(),
            "ringrun: host hb failed first: its connection ended\nringrun:   last word\n");
  EXPECT_EQ(lost.hosts_left(), (Hosts{{"ha", 1}, {"hc", 1}}));

  JobRecord lost_late(kThree);
  lost_late.note_blame(0, kNobody);
  lost_late.note_end(0, exited(3));
  lost_late.close();
  lost_late.note_lost(1, "its agent did not end with the job", {});
  EXPECT_EQ(lost_late.exit_code(), 3);
}

TEST(JobRecordTest, AllLostHostsAreLeftOut) {
  JobRecord record(kThree);
  record.note_lost(1, "silent for 1 s", {"last word"});
  record.note_lost(2, "silent for 1 s", {});
  EXPECT_EQ(record.exit_code(), 1);
  EXPECT_EQ(record.report(),
            "ringrun: host hb failed first: silent for 1 s\nringrun:   last word\n");
  EXPECT_EQ(record.hosts_left(), (Hosts{{"ha", 1}}));

  JobRecord noticed_late(kThree);
  noticed_late.note_lost(1, "silent for 1 s", {});
  noticed_late.close();
  noticed_late.note_lost(2, "its agent did not end with the job", {});
  EXPECT_EQ(noticed_late.hosts_left(), (Hosts{{"ha", 1}}));
}

TEST(JobRecordTest, AHostThatIsLostMeanwhileIsBlamedForItsRank) {
  JobRecord record(kThree);
  record.note_blame(0, 2);
  record.note_end(0, exited(3));
  record.note_lost(1, "its connection ended", {});
  EXPECT_EQ(record.report(), "ringrun: host hb failed first: its connection ended\n");
  EXPECT_EQ(record.hosts_left(), (Hosts{{"ha", 1}, {"hc", 1}}));
}

TEST(JobRecordTest, RanksKilledFromOutsideAreLeftOut) {
  JobRecord record(kThree);
  record.note_end(1, killed(SIGKILL));
  record.note_end(3, killed(SIGKILL));
  record.note_end(0, exited(3));
  EXPECT_EQ(record.hosts_left(), (Hosts{{"ha", 1}, {"hb", 1}}));
}

}  // namespace
}  // namespace ringrad
