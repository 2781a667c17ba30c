#include "ringrad/parallel/comm/job/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ringrad/parallel/comm/common/culprit_report.h"
#include "ringrad/parallel/comm/job/message_stream.h"
#include "ringrad/tests/testing.h"

namespace {

// Signals sent to process groups since the test began, and whether the leader's process number was
// still taken at that time: by the leader itself, if it had not been reaped.
struct GroupSignal {
  pid_t leader;
  bool is_taken;
};
std::vector<GroupSignal> group_signals;

}  // namespace

// Replaces the C library's kill().
extern "C" int kill(pid_t process, int signal) noexcept {
  if (process < -1)
    group_signals.push_back(
        {-process, std::filesystem::exists("/proc/" + std::to_string(-process))});
  return static_cast<int>(syscall(SYS_kill, process, signal));
}

namespace ringrad {
namespace {

ChildProcess start_shell(const std::string& script, int report = -1,
                         const std::string& variable = "A=") {
  return start_child({.program = {"bash", "-c", script},
                      .environment = environment_with({variable}),
                      .report = report},
                     Where::current());
}

// The text that a descriptor's other end writes until it is closed.
std::string read_all(const Descriptor& from) {
  std::string text;
  char buffer[1000];
  for (ssize_t count; (count = read(from.number(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  return text;
}

TEST(ChildProcessTest, AGroupIsKilledBeforeItsNumberCanBecomeAnothers) {
  group_signals.clear();
  const ChildProcess child = start_shell("sleep 1000 & exit 7");
  EXPECT_EQ(find_ended_child(true), child.process);
  EXPECT_EQ(WEXITSTATUS(reap_group(child.process)), 7);
  ASSERT_EQ(group_signals.size(), 1u);
  EXPECT_EQ(group_signals[0].leader, child.process);
  EXPECT_TRUE(group_signals[0].is_taken);
  EXPECT_EQ(read_all(child.out), "");  // the pipe ends, since no process can still write to it
}

TEST(ChildProcessTest, ChildrenEndTogetherAndEachIsReported) {
  group_signals.clear();
  const ChildProcess a = start_shell("sleep 1000 & sleep 1000"), b = start_shell("exit 3");
  std::vector<pid_t> ended;
  end_children([&](pid_t process, int) { ended.push_back(process); });
  EXPECT_EQ(ended.size(), 2u);
  for (const GroupSignal& signal : group_signals) EXPECT_TRUE(signal.is_taken);
  EXPECT_EQ(read_all(a.out) + read_all(b.out), "");
  EXPECT_FALSE(find_ended_child(true));
}

TEST(ChildProcessTest, ChildrenThatTheProgramHadBeforeAreNotKilled) {
  const ChildProcess old = start_shell("sleep 1000"), ended = start_shell("exit 3");
  inherit_orphans();
  group_signals.clear();
  const ChildProcess own = start_shell("sleep 1000");
  std::map<pid_t, int> statuses;
  end_children([&](pid_t process, int status) { statuses[process] = status; });
  EXPECT_EQ(WTERMSIG(statuses.at(own.process)), SIGKILL);
  for (const GroupSignal& signal : group_signals) EXPECT_EQ(signal.leader, own.process);
  EXPECT_FALSE(statuses.contains(old.process));
  EXPECT_EQ(kill(old.process, SIGKILL), 0);
  EXPECT_EQ(WTERMSIG(reap_child(old.process)), SIGKILL);
  if (!statuses.contains(ended.process)) reap_child(ended.process);
}

TEST(ChildProcessTest, LooksWithoutWaiting) {
  EXPECT_FALSE(find_ended_child(false));
  const ChildProcess child = start_shell("read");
  EXPECT_TRUE(find_ended_child(true));
  reap_child(child.process);
}

// The report that the launcher receives about a child that runs `script`.
std::optional<int> report_of(const std::string& script) {
  const Pipe pipe = make_pipe(Where::current());
  make_non_blocking(pipe.out);
  const ChildProcess child = start_shell(script, pipe.in.number(), report_variable(pipe.in));
  EXPECT_TRUE(find_ended_child(true));
  EXPECT_EQ(reap_child(child.process), 0);
  return read_report(pipe.out);
}

// In an agent with many ranks, any descriptor may have the number that ranks use for reports.
TEST(ChildProcessTest, ReportsAndReasonsArriveWhateverTheirDescriptorsAre) {
  std::vector<Descriptor> others;
  do others.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  while (others.back().number() < kReportDescriptor);
  for (int num_free = 1; num_free <= 12; ++num_free) {
    others.pop_back();
    EXPECT_EQ(report_of(concat("echo ", num_free, " >&", kReportDescriptor)), num_free);
    const Pipe pipe = make_pipe(Where::current());
    testing::expect_throws<Error>(
        [&] {
          start_child(
              {.program = {"/no/such/program"}, .environment = {}, .report = pipe.in.number()},
              Where::current());
        },
        "the program must start; got \"No such file or directory\"");
  }
}

TEST(CulpritReportTest, TheFirstReportThatStandsCounts) {
  const auto write = [](const std::string& reports) {
    return "printf -- '" + reports + "' >&" + std::to_string(kReportDescriptor);
  };
  EXPECT_EQ(report_of("exit 0"), std::nullopt);
  EXPECT_EQ(report_of(write("2\\n")), 2);
  EXPECT_EQ(report_of(write("2\\n3\\n")), 2);
  EXPECT_EQ(report_of(write("-1\\n")), kNobody);
  EXPECT_EQ(report_of(write("2\\n-1\\n")), 2);
  EXPECT_EQ(report_of(write("-1\\n2\\n")), kNobody);
  EXPECT_EQ(report_of(write("2\\n-2\\n")), std::nullopt);
  EXPECT_EQ(report_of(write("2\\n-2\\n1\\n")), 1);
  for (const char* nonsense :
       {"2", "-3\\n", "x\\n", "\\n", "99999999999\\n", "2 \\n", "\\377\\000"})
    EXPECT_EQ(report_of(write(nonsense)), std::nullopt) << nonsense;
}

// The rank reports in a process of its own. Only its first report counts.
int exit_code_after_reporting(const std::string& variable) {
  const pid_t child = fork();
  if (child == 0) {
    setenv(kReportVariable, variable.substr(variable.find('=') + 1).c_str(), 1);
    report_culprit(4);
    report_culprit(5);
    retract_report();
    report_culprit(6);
    report_culprit(7);
    _exit(0);
  }
  return reap_child(child);
}

TEST(CulpritReportTest, IsWrittenToTheLaunchersPipeOnly) {
  const Pipe pipe = make_pipe(Where::current());
  make_non_blocking(pipe.out);
  ASSERT_EQ(dup2(pipe.in.number(), kReportDescriptor), kReportDescriptor);
  EXPECT_EQ(exit_code_after_reporting(report_variable(pipe.in)), 0);
  EXPECT_EQ(read_report(pipe.out), 6);

  // The program uses that number for another file. The report must not be written to it.
  const Pipe own = make_pipe(Where::current());
  make_non_blocking(own.out);
  dup2(own.in.number(), kReportDescriptor);
  EXPECT_EQ(exit_code_after_reporting(report_variable(pipe.in)), 0);
  close(kReportDescriptor);
  EXPECT_EQ(exit_code_after_reporting(report_variable(pipe.in)), 0);
  char byte = 0;
  EXPECT_EQ(read(own.out.number(), &byte, 1), -1);
  EXPECT_EQ(read(pipe.out.number(), &byte, 1), -1);
}

}  // namespace
}  // namespace ringrad
