#include "ringrad/benchmarks/collective_launch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <thread>
#include <vector>

#include "ringrad/benchmarks/collective_backends.h"

namespace ringrad::bench {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(2);
constexpr double kGraceSeconds = 5;  // for the other ranks of a failed case

volatile std::sig_atomic_t interrupted_by = 0;

// While this object exists, SIGINT and SIGTERM end the case. Otherwise they would end this process
// and leave its ranks and their folder behind.
class Interruptible {
 public:
  Interruptible() {
    struct sigaction action {};
    action.sa_handler = [](int signal) { interrupted_by = signal; };
    sigaction(SIGINT, &action, &before_[0]);
    sigaction(SIGTERM, &action, &before_[1]);
  }
  ~Interruptible() {
    sigaction(SIGINT, &before_[0], nullptr);
    sigaction(SIGTERM, &before_[1], nullptr);
  }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  struct sigaction before_[2];
};

SharedCase* map(int file) {
  void* memory = mmap(nullptr, sizeof(SharedCase), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED)
    throw OutOfMemoryError("collectives: no memory to share with ranks", Where::current());
  return static_cast<SharedCase*>(memory);
}

// The memory and the folder of one case; both are removed with this object.
class Meeting {
 public:
  explicit Meeting(const CollectiveCase& one)
      : file(make_file()), shared(new (map(file)) SharedCase) {
    shared->one = one;
    const std::string folder = std::filesystem::temp_directory_path() / "collectives_XXXXXX";
    folder.copy(shared->folder.data(), shared->folder.size() - 1);
    if (mkdtemp(shared->folder.data()) == nullptr) refuse(folder);
  }
  ~Meeting() {
    std::error_code ignored;
    std::filesystem::remove_all(shared->folder.data(), ignored);
    munmap(shared, sizeof(SharedCase));
    close(file);
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  const int file;
  SharedCase* const shared;

 private:
  static int make_file() {
    const int file = memfd_create("collectives", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, sizeof(SharedCase)) != 0) refuse("shared memory");
    return file;
  }
  [[noreturn]] static void refuse(const std::string& what) {
    throw Error(
        "collectives: " + what + " must be made for ranks to meet; got " + std::strerror(errno),
        Where::current());
  }
};

int run_guarded(SharedCase& shared, int rank) {
  try {
    run_part(shared, rank);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    shared.fail((rank < 0 ? "" : "rank " + std::to_string(rank) + ": ") + error.what());
    return EXIT_FAILURE;
  }
}

[[noreturn]] void become_mpirun(const Meeting& meeting) {
  const CollectiveCase& one = meeting.shared->one;
  const std::string file =
      "/proc/" + std::to_string(getppid()) + "/fd/" + std::to_string(meeting.file);
  const std::string ranks = std::to_string(one.ranks);
  std::array<char, 4096> self{};
  if (readlink("/proc/self/exe", self.data(), self.size() - 1) < 0) _exit(127);
  std::vector<const char*> words = {"mpirun", "--oversubscribe", "--bind-to", "none"};
  if (geteuid() == 0) words.push_back("--allow-run-as-root");
  for (const char* word :
       {"--mca", "plm", "isolated", "--mca", "btl_base_warn_component_unused", "0"})
    words.push_back(word);
  // mpirun sets this option itself if it knows that there are too few processors.
  if (one.ranks > static_cast<int>(std::thread::hardware_concurrency()))
    for (const char* word : {"--mca", "mpi_yield_when_idle", "1"}) words.push_back(word);
  for (const char* word :
       {"-n", ranks.c_str(), static_cast<const char*>(self.data()), kPartOfCase, file.c_str()})
    words.push_back(word);
  words.push_back(nullptr);
  setenv("TMPDIR", meeting.shared->folder.data(), 1);  // what mpirun leaves goes with the case
  execvp("mpirun", const_cast<char**>(words.data()));
  meeting.shared->fail("mpirun must be installed; got " + std::string(std::strerror(errno)));
  _exit(127);
}

pid_t start(const Meeting& meeting, Backend::Ranks ranks, int rank) {
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent || interrupted_by != 0) _exit(1);
  if (ranks == Backend::Ranks::mpirun) become_mpirun(meeting);
  const int status = run_guarded(*meeting.shared, rank);
  std::fflush(nullptr);
  _exit(status);
}

// Waits for all processes; ends those that remain some time after the first failure, or at the
// deadline.
bool all_succeed(std::vector<pid_t> children, SharedCase& shared, double deadline_seconds) {
  double end = now_seconds() + deadline_seconds;
  bool good = true, is_ending = false;
  while (!children.empty()) {
    for (std::size_t i = 0; i < children.size();) {
      int status = 0;
      if (waitpid(children[i], &status, WNOHANG) == 0) {
        ++i;
        continue;
      }
      children.erase(children.begin() + static_cast<std::ptrdiff_t>(i));
      if (status == 0) continue;
      if (good) end = std::min(end, now_seconds() + kGraceSeconds);
      good = false;
      shared.fail(WIFSIGNALED(status)
                      ? std::string("a rank was ended by signal ") + strsignal(WTERMSIG(status))
                      : "a rank ended with status " + std::to_string(WEXITSTATUS(status)));
    }
    if (interrupted_by != 0 && !is_ending) end = 0;
    if (now_seconds() > end) {
      shared.fail("ranks must end within " + std::to_string(static_cast<int>(deadline_seconds)) +
                  " s");
      good = false;
      for (const pid_t child : children) kill(child, is_ending ? SIGKILL : SIGTERM);
      is_ending = true;
      end = now_seconds() + kGraceSeconds;
    }
    if (!children.empty()) std::this_thread::sleep_for(kPoll);
  }
  return good;
}

}  // namespace

Measured run_case(const CollectiveCase& one, double deadline_seconds) {
  const Backend& backend = backend_named(one.backend);
  const Interruptible interruptible;
  const Meeting meeting(one);
  const bool is_rank_each = backend.ranks == Backend::Ranks::processes;
  std::vector<pid_t> children;
  for (int rank = 0; rank < (is_rank_each ? one.ranks : 1); ++rank) {
    const pid_t child = start(meeting, backend.ranks, is_rank_each ? rank : -1);
    if (child < 0)
      meeting.shared->fail("a process cannot be started: " + std::string(std::strerror(errno)));
    else
      children.push_back(child);
  }
  const bool good = all_succeed(children, *meeting.shared, deadline_seconds);
  if (interrupted_by != 0)
    throw Error(std::string("collectives: ") + strsignal(interrupted_by), Where::current());
  const std::string failure = meeting.shared->failure();
  if (!good || !failure.empty())
    throw CollectiveError(std::string("collectives: ") + name(one.routine) + " by " + one.backend +
                              "/" + one.algorithm + ", " + std::to_string(one.ranks) + " ranks, " +
                              std::to_string(one.bytes()) + " B: " + failure,
                          Where::current());
  return meeting.shared->measured;
}

int run_part_of_case(const char* path) {
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) {
    std::fprintf(stderr, "collectives: %s must be a running case's; got %s\n", path,
                 std::strerror(errno));
    return EXIT_FAILURE;
  }
  return run_guarded(*map(file), -1);
}

}  // namespace ringrad::bench
