// Processes act as mpirun, which is known by its name, and as its ranks.

#include "ringrad/parallel/comm/network/mpi_launcher.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <string>

namespace ringrad {
namespace {

pid_t start(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  return child;
}

// Its children are ranks.
pid_t start_mpirun(const std::function<void()>& body) {
  return start([&] {
    prctl(PR_SET_NAME, "mpirun");
    body();
  });
}

int status_of(pid_t process) {
  int status = 0;
  EXPECT_EQ(waitpid(process, &status, 0), process);
  return status;
}

void rank_that_gives_up() { watch_launcher(); }

TEST(MpiLauncherTest, AnMpirunThatHangsAfterItsRanksHaveEndedIsKilled) {
  const int status = status_of(start_mpirun([] {
    status_of(start(rank_that_gives_up));
    for (;;) pause();
  }));
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST(MpiLauncherTest, AnMpirunWhoseRanksAreAliveIsLeftAlone) {
  const int status = status_of(start_mpirun([] {
    const pid_t other = start([] { sleep(4); });
    status_of(start(rank_that_gives_up));
    status_of(other);
    _exit(3);
  }));
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

// The process that watches, of a rank whose orphans this process inherits.
pid_t wait_for_watcher() {
  const std::string self = std::to_string(getpid());
  for (;; usleep(1000)) {
    std::ifstream children("/proc/self/task/" + self + "/children");
    for (pid_t child = 0; children >> child;) {
      std::string name;
      std::ifstream("/proc/" + std::to_string(child) + "/comm") >> name;
      if (name == "ringrad-watch") return child;
    }
  }
}

// It has the handlers of the rank's program.
TEST(MpiLauncherTest, ASignalToTheWatchingProcessEndsNoRank) {
  const int status = status_of(start_mpirun([] {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t other = start([] { sleep(4); });
    status_of(start([] {
      std::signal(SIGUSR1, [](int) {});
      rank_that_gives_up();
    }));
    const pid_t watcher = wait_for_watcher();
    for (int i = 0; i < 50; ++i) {
      kill(watcher, SIGUSR1);
      usleep(10'000);
    }
    _exit(status_of(other) == 0 ? 3 : 4);
  }));
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

// A stopped rank cannot end by itself. It holds a pipe's end until it does.
TEST(MpiLauncherTest, ARankThatOutlivesItsMpirunIsKilled) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  status_of(start_mpirun([&] {
    close(ends[0]);
    int status = 0;
    const pid_t stopped = start([] { raise(SIGSTOP); });
    waitpid(stopped, &status, WUNTRACED);
    close(ends[1]);
    status_of(start(rank_that_gives_up));
  }));
  close(ends[1]);
  char none;
  EXPECT_EQ(read(ends[0], &none, 1), 0);
  close(ends[0]);
}

TEST(MpiLauncherTest, AnotherParentIsNoLauncher) {
  status_of(start([] {
    prctl(PR_SET_NAME, "bash");
    status_of(start(rank_that_gives_up));
  }));
  status_of(start(rank_that_gives_up));
}

}  // namespace
}  // namespace ringrad
