#include "parallel/comm/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "parallel/comm/chaos.h"
#include "parallel/comm/store.h"

extern char** environ;

namespace ringrad {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
constexpr std::size_t kLongestLine = 64 * 1024;
constexpr std::size_t kLastLines = 20;  // of the rank that failed, shown at the end

class File {
 public:
  explicit File(int number = -1) : number_(number) {}
  File(File&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~File() { reset(); }

  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  void reset() {
    if (is_open()) close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

std::pair<File, File> make_pipe(Where where) {
  int ends[2];
  RINGRAD_CHECK(pipe2(ends, O_CLOEXEC) == 0, Error, where, "launch: a pipe must be made; got ",
                std::strerror(errno));
  return {File(ends[0]), File(ends[1])};
}

// Passes on what one rank writes to one of its two streams, line by line.
class Output {
 public:
  Output(File from, FILE* to, std::string prefix)
      : from_(std::move(from)), to_(to), prefix_(std::move(prefix)) {}

  int number() const { return from_.number(); }
  bool is_open() const { return from_.is_open(); }
  const std::deque<std::string>& last_lines() const { return last_lines_; }

  // Reads what is there. REQUIRES: something is, or the end
  void pass_on() {
    char buffer[4096];
    const ssize_t count = read(from_.number(), buffer, sizeof buffer);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    for (ssize_t i = 0; i < count; ++i) {
      if (buffer[i] != '\n') line_ += buffer[i];
      if (buffer[i] == '\n' || line_.size() >= kLongestLine) write_line();
    }
    if (count > 0) return;
    if (!line_.empty()) write_line();
    from_.reset();
  }

 private:
  void write_line() {
    const std::string whole = prefix_ + line_ + '\n';
    std::fwrite(whole.data(), 1, whole.size(), to_);  // in one piece
    std::fflush(to_);
    last_lines_.push_back(std::exchange(line_, {}));
    if (last_lines_.size() > kLastLines) last_lines_.pop_front();
  }

  File from_;
  FILE* to_;
  std::string prefix_, line_;
  std::deque<std::string> last_lines_;
};

struct Rank {
  pid_t process;
  Output out, err;
  std::optional<int> status;  // as waitpid() gives it, once it has ended
};

// Strings as exec wants them.
std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_of(int rank, int attempt, const LaunchOptions& options,
                                        const StoreAddress& store) {
  const std::string size = std::to_string(options.num_ranks), number = std::to_string(rank);
  std::vector<std::string> own = {"RANK=" + number,
                                  "LOCAL_RANK=" + number,
                                  "WORLD_SIZE=" + size,
                                  "LOCAL_WORLD_SIZE=" + size,
                                  "MASTER_ADDR=" + store.host,
                                  "MASTER_PORT=" + std::to_string(store.port),
                                  "RINGRAD_TOKEN=" + store.token,
                                  "RINGRAD_RESTART_COUNT=" + std::to_string(attempt)};
  if (!options.chaos.empty()) own.push_back("RINGRAD_CHAOS=" + options.chaos);
  // The ranks share the processors.
  if (!std::getenv("OMP_NUM_THREADS")) {
    const int processors = static_cast<int>(std::thread::hardware_concurrency());
    own.push_back("OMP_NUM_THREADS=" + std::to_string(std::max(1, processors / options.num_ranks)));
  }
  const auto names_same = [](std::string_view a, std::string_view b) {
    return a.substr(0, a.find('=')) == b.substr(0, b.find('='));
  };
  for (char** variable = environ; *variable; ++variable)
    if (std::none_of(own.begin(), own.end(),
                     [&](const std::string& o) { return names_same(o, *variable); }))
      own.emplace_back(*variable);
  return own;
}

// In the new process: only what is safe between fork and exec.
[[noreturn]] void become(char* const* program, char* const* environment, int out, int err,
                         int failure, pid_t launcher, const struct sigaction& on_broken_pipe) {
  setpgid(0, 0);
  sigaction(SIGPIPE, &on_broken_pipe, nullptr);
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);  // a terminal would stop it
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(127);  // it died before the line above
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execvpe(program[0], program, environment);
  const int error = errno;
  const ssize_t written = write(failure, &error, sizeof error);
  _exit(written == sizeof error ? 127 : 126);
}

Rank start(int rank, int attempt, const LaunchOptions& options, const StoreAddress& store,
           const struct sigaction& on_broken_pipe, Where where) {
  auto [out, out_end] = make_pipe(where);
  auto [err, err_end] = make_pipe(where);
  auto [failure, failure_end] = make_pipe(where);
  const auto variables = environment_of(rank, attempt, options, store);
  const auto program = pointers_to(options.program), environment = pointers_to(variables);
  const pid_t launcher = getpid(), child = fork();
  RINGRAD_CHECK(child >= 0, Error, where, "launch: a process must be made; got ",
                std::strerror(errno));
  if (child == 0)
    become(program.data(), environment.data(), out_end.number(), err_end.number(),
           failure_end.number(), launcher, on_broken_pipe);
  failure_end.reset();
  int error = 0;
  if (read(failure.number(), &error, sizeof error) == sizeof error) {
    waitpid(child, nullptr, 0);
    throw Error(concat("launch: the program must start; got \"", std::strerror(error), "\" from ",
                       options.program.front()),
                where);
  }
  const std::string prefix = concat('[', rank, "] ");
  return {
      child, Output(std::move(out), stdout, prefix), Output(std::move(err), stderr, prefix), {}};
}

int exit_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Signals come as something to read while it lives; but for those that are ignored, as under nohup.
class Signals {
 public:
  Signals() {
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    for (const int signal : kPassedOn) {
      struct sigaction now {};
      sigaction(signal, nullptr, &now);
      if (now.sa_handler != SIG_IGN) sigaddset(&wanted, signal);
    }
    struct sigaction normal {};
    normal.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &normal, &on_child_before_);  // ignored, it would leave nothing to wait for
    sigaction(SIGPIPE, nullptr, &on_broken_pipe_);
    pthread_sigmask(SIG_BLOCK, &wanted, &before_);
    file_ = File(signalfd(-1, &wanted, SFD_CLOEXEC));
  }
  ~Signals() {
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    sigaction(SIGCHLD, &on_child_before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int number() const { return file_.number(); }
  /// What ranks are to inherit: the store's server has it ignored here.
  const struct sigaction& on_broken_pipe() const { return on_broken_pipe_; }

 private:
  sigset_t before_;
  struct sigaction on_child_before_ {
  }, on_broken_pipe_{};
  File file_;
};

// One run of the job, from the first rank's start to the last one's end.
class Job {
 public:
  Job(const LaunchOptions& options, int attempt, const Signals& signals, Where where)
      : options_(options),
        signals_(signals.number()),
        server_({.port = options.port, .token = make_token()}, where) {
    try {
      for (int rank = 0; rank < options.num_ranks; ++rank)
        ranks_.push_back(
            start(rank, attempt, options, server_.address(), signals.on_broken_pipe(), where));
    } catch (...) {
      end_everything();
      throw;
    }
  }

  /// The status of the rank that failed first; 0 if none did.
  int run() {
    while (num_running() > 0) {
      poll_once();
      if (!failed_ && !interrupted_) continue;
      const auto since = Clock::now() - ending_since_;
      if (since > options_.grace && !sent_term_) {
        signal_all(SIGTERM);
        sent_term_ = true;
      }
      if (since > 2 * options_.grace) end_everything();
    }
    end_everything();
    return failed_ ? *ranks_[static_cast<std::size_t>(*failed_)].status : 0;
  }

  /// The signal that ended it, or 0.
  int interrupted() const { return interrupted_; }

  void report() const {
    if (!failed_) return;
    const Rank& rank = ranks_[static_cast<std::size_t>(*failed_)];
    std::fprintf(stderr, "ringrun: rank %d failed first: %s\n", *failed_,
                 WIFSIGNALED(*rank.status)
                     ? concat("killed by signal ", WTERMSIG(*rank.status), " (",
                              strsignal(WTERMSIG(*rank.status)), ")")
                           .c_str()
                     : concat("exit code ", WEXITSTATUS(*rank.status)).c_str());
    for (const std::string& line : rank.err.last_lines())
      std::fprintf(stderr, "ringrun:   %s\n", line.c_str());
  }

 private:
  int num_running() const {
    return static_cast<int>(
        std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& r) { return !r.status; }));
  }

  void poll_once() {
    std::vector<pollfd> waited = {{signals_, POLLIN, 0}};
    std::vector<Output*> outputs;
    for (Rank& rank : ranks_)
      for (Output* output : {&rank.out, &rank.err})
        if (output->is_open()) {
          waited.push_back({output->number(), POLLIN, 0});
          outputs.push_back(output);
        }
    if (poll(waited.data(), waited.size(), 100) <= 0) return;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (waited[i + 1].revents) outputs[i]->pass_on();
    if (waited[0].revents) take_signal();
  }

  void take_signal() {
    signalfd_siginfo info;
    if (read(signals_, &info, sizeof info) != sizeof info) return;
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) return reap();
    signal_all(signal);
    if (signal == SIGUSR1 || signal == SIGUSR2 || interrupted_) return;
    interrupted_ = signal;
    ending_since_ = Clock::now();
  }

  void reap() {
    int status = 0;
    for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;)
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        if (ranks_[r].process != ended) continue;
        ranks_[r].status = status;
        kill(-ended, SIGKILL);  // what it leaves behind
        if (status == 0 || failed_ || interrupted_) continue;
        failed_ = static_cast<int>(r);
        ending_since_ = Clock::now();
      }
  }

  void signal_all(int signal) const {
    for (const Rank& rank : ranks_)
      if (!rank.status) kill(-rank.process, signal);
  }

  // Ranks, their process groups, and what has left those: as its subreaper, this process has inherited it.
  void end_everything() {
    for (const Rank& rank : ranks_)
      if (!rank.status) kill(-rank.process, SIGKILL);
    for (;;) {
      std::ifstream children(concat("/proc/self/task/", getpid(), "/children"));
      for (pid_t child = 0; children >> child;) kill(child, SIGKILL);
      int status = 0;
      const pid_t ended = waitpid(-1, &status, 0);
      if (ended < 0 && errno == ECHILD) break;
      for (Rank& rank : ranks_)
        if (rank.process == ended && !rank.status) rank.status = status;
    }
    for (Rank& rank : ranks_)
      for (Output* output : {&rank.out, &rank.err})
        while (output->is_open()) output->pass_on();
  }

  const LaunchOptions& options_;
  const int signals_;
  StoreServer server_;
  std::vector<Rank> ranks_;
  std::optional<int> failed_;
  int interrupted_ = 0;
  bool sent_term_ = false;
  Clock::time_point ending_since_;
};

}  // namespace

int launch(const LaunchOptions& options, Where where) {
  RINGRAD_CHECK(!options.program.empty(), ValueError, where,
                "launch: there must be a program; got none");
  RINGRAD_CHECK(options.num_ranks >= 1, ValueError, where,
                "launch: num_ranks must be positive; got ", options.num_ranks);
  RINGRAD_CHECK(options.max_restarts >= 0, ValueError, where,
                "launch: max_restarts must not be negative; got ", options.max_restarts);
  for (const ChaosFault& fault : parse_chaos(options.chaos, options.num_ranks, where))
    RINGRAD_CHECK(fault.restart <= options.max_restarts, ValueError, where,
                  "launch: a planned fault must be in one of ", options.max_restarts,
                  " restarts; got restart ", fault.restart);
  const Signals signals;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (int attempt = 0;; ++attempt) {
    Job job(options, attempt, signals, where);
    const int status = job.run();
    job.report();
    if (job.interrupted()) return status ? exit_code(status) : 128 + job.interrupted();
    if (status == 0 || attempt == options.max_restarts) return exit_code(status);
    std::fprintf(stderr, "ringrun: restart %d of %d\n", attempt + 1, options.max_restarts);
  }
}

}  // namespace ringrad
