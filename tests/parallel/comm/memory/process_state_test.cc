// The state that the system reports for a process that is stopped, held by a debugger, or at its
// end.

#include "ringrad/parallel/comm/common/process_state.h"

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

namespace ringrad {
namespace {

pid_t start_paused_child() {
  const pid_t child = fork();
  if (child == 0)
    for (;;) pause();
  return child;
}

TEST(ProcessStateTest, TellsStoppedFromEnded) {
  const pid_t child = start_paused_child();
  EXPECT_EQ(process_state(child), ProcessState::running);
  kill(child, SIGSTOP);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, WUNTRACED), child);
  EXPECT_EQ(process_state(child), ProcessState::stopped);
  kill(child, SIGKILL);
  siginfo_t end{};
  EXPECT_EQ(waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(process_state(child), ProcessState::ended);  // though its parent has not reaped it
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(process_state(child), ProcessState::ended);
}

TEST(ProcessStateTest, TellsADebuggerFromAStop) {
  const pid_t child = start_paused_child();
  int status = 0;
  const bool is_attached = ptrace(PTRACE_ATTACH, child, nullptr, nullptr) == 0;
  const bool may_not = !is_attached && errno == EPERM;
  if (is_attached) {
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(process_state(child), ProcessState::traced);
  }
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, &status, 0), child);
  if (may_not) GTEST_SKIP() << "this system allows no debuggers";
  EXPECT_TRUE(is_attached);
}

// A card of a process that has ended. Its number is free, or another process's.
std::string ended_card(const std::string& place) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  return place + ' ' + std::to_string(child) + " 1";
}

TEST(ProcessCardTest, AnEndIsSeenWhereThePlaceIsTheSame) {
  const std::string here = process_place("boot", "pid:[1]");
  EXPECT_TRUE(has_ended(ended_card(here), here));
  EXPECT_FALSE(has_ended(ended_card(here), process_place("boot", "pid:[2]")));
  EXPECT_FALSE(has_ended(ended_card(here), process_place("other", "pid:[1]")));
  EXPECT_FALSE(has_ended(own_process_card()));
}

// All machines without a boot id would seem to be one, and a process that only another machine has
// would seem to have ended.
TEST(ProcessCardTest, NothingIsKnownWithoutABootIdOrANamespace) {
  for (const std::string& place :
       {process_place("", "pid:[1]"), process_place("boot", ""), process_place("", "")}) {
    EXPECT_FALSE(has_ended(ended_card(place), place)) << place;
    EXPECT_FALSE(has_ended(ended_card(place), process_place("boot", "pid:[1]"))) << place;
  }
}

}  // namespace
}  // namespace ringrad
