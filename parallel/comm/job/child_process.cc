#include "ringrad/parallel/comm/job/child_process.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <locale>
#include <string_view>
#include <utility>

#include "ringrad/parallel/comm/common/culprit_report.h"
#include "ringrad/parallel/comm/common/system_limits.h"

extern char** environ;

namespace ringrad {
namespace {

// Children that this process had when it began to inherit orphans, and has not reaped.
std::vector<pid_t> foreign;

bool is_foreign(pid_t child) {
  return std::find(foreign.begin(), foreign.end(), child) != foreign.end();
}

std::vector<pid_t> children() {
  std::ifstream file(concat("/proc/self/task/", getpid(), "/children"));
  file.imbue(std::locale::classic());
  return {std::istream_iterator<pid_t>(file), {}};
}

// Strings as exec wants them.
std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// What the new process gets, made before it: between fork and exec only little is safe.
struct Start {
  char* const* program;
  char* const* environment;
  const cpu_set_t* cpus;  // null for any
  int in, out, err;       // in: -1 for none
  int failure;            // where it says why it cannot
  int report;             // -1 for none
  bool in_own_session;
  pid_t parent;
  const struct sigaction& on_broken_pipe;
};

// A parent with many children has descriptors of any number. The one that is needed until the
// program runs must not be the one that the report takes.
int make_room_for_report(int needed) {
  return needed == kReportDescriptor ? fcntl(needed, F_DUPFD_CLOEXEC, kReportDescriptor + 1)
                                     : needed;
}

// A terminal that changes nothing of what is written to `in`. A pipe if there is none.
Pipe make_terminal(Where where) {
  Descriptor out(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!out.is_open() || unlockpt(out.number()) != 0) return make_pipe(where);
  Descriptor in(ioctl(out.number(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios settings{};
  if (!in.is_open() || tcgetattr(in.number(), &settings) != 0) return make_pipe(where);
  cfmakeraw(&settings);
  if (tcsetattr(in.number(), TCSANOW, &settings) != 0) return make_pipe(where);
  return {std::move(out), std::move(in)};
}

[[noreturn]] void become(const Start& start) {
  if (start.in_own_session)
    setsid();
  else
    setpgid(0, 0);
  sigaction(SIGPIPE, &start.on_broken_pipe, nullptr);
  // A terminal would stop it.
  dup2(start.in >= 0 ? start.in : open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != start.parent) _exit(127);  // it died before the line above
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(start.out, STDOUT_FILENO);
  dup2(start.err, STDERR_FILENO);
  const int failure = start.report >= 0 ? make_room_for_report(start.failure) : start.failure;
  if (start.report == kReportDescriptor) fcntl(start.report, F_SETFD, 0);  // dup2() would not
  if (start.report >= 0) dup2(start.report, kReportDescriptor);
  if (!start.cpus || sched_setaffinity(0, sizeof *start.cpus, start.cpus) == 0)
    execvpe(start.program[0], start.program, start.environment);
  const int error = errno;
  const ssize_t written = write(failure, &error, sizeof error);
  _exit(written == sizeof error ? 127 : 126);
}

}  // namespace

SignalReader::SignalReader(const std::vector<int>& signals, Where where) {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGCHLD);
  for (const int signal : signals) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&wanted, signal);
  }
  struct sigaction normal {};
  normal.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &normal, &on_child_before_);  // ignored, it would leave nothing to wait for
  struct sigaction ignored {};
  ignored.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignored, &on_broken_pipe_);
  pthread_sigmask(SIG_BLOCK, &wanted, &before_);
  file_ = Descriptor(signalfd(-1, &wanted, SFD_CLOEXEC));
  if (file_.is_open()) return;
  const int error = errno;
  restore();
  throw Error(concat("launch: signals must be readable; got ", text_of_errno(error)), where);
}

SignalReader::~SignalReader() { restore(); }

void SignalReader::restore() const {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  sigaction(SIGPIPE, &on_broken_pipe_, nullptr);
  sigaction(SIGCHLD, &on_child_before_, nullptr);
}

int SignalReader::take() const {
  signalfd_siginfo info{};
  return read(number(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

ChildProcess start_child(const ChildOptions& options, Where where) {
  Pipe in, out = options.has_terminal ? make_terminal(where) : make_pipe(where);
  Pipe err = make_pipe(where), failure = make_pipe(where);
  if (options.reads) in = make_pipe(where);
  const auto program = pointers_to(options.program), environment = pointers_to(options.environment);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (const int cpu : options.cpus) CPU_SET(cpu, &cpus);
  const Start start{.program = program.data(),
                    .environment = environment.data(),
                    .cpus = options.cpus.empty() ? nullptr : &cpus,
                    .in = in.out.number(),
                    .out = out.in.number(),
                    .err = err.in.number(),
                    .failure = failure.in.number(),
                    .report = options.report,
                    .in_own_session = options.in_own_session,
                    .parent = getpid(),
                    .on_broken_pipe = options.on_broken_pipe};
  const pid_t child = fork();
  RINGRAD_CHECK(child >= 0, Error, where, "launch: a process must be made; got ",
                text_of_errno(errno));
  if (child == 0) become(start);
  failure.in.reset();
  int error = 0;
  if (read(failure.out.number(), &error, sizeof error) == sizeof error) {
    reap_child(child);
    throw Error(concat("launch: the program must start; got \"", std::strerror(error), "\" from ",
                       options.program.front()),
                where);
  }
  return {child, std::move(in.in), std::move(out.out), std::move(err.out)};
}

std::vector<std::string> environment_with(std::vector<std::string> own) {
  const auto names_same = [](std::string_view a, std::string_view b) {
    return a.substr(0, a.find('=')) == b.substr(0, b.find('='));
  };
  const std::size_t num_own = own.size();
  for (char** variable = environ; *variable; ++variable)
    if (std::none_of(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(num_own),
                     [&](const std::string& o) { return names_same(o, *variable); }))
      own.emplace_back(*variable);
  return own;
}

// More than a cpu_set_t holds are not known; then there is nothing to choose from.
std::vector<int> allowed_cpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  std::vector<int> allowed;
  if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) return allowed;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &cpus)) allowed.push_back(cpu);
  return allowed;
}

void inherit_orphans() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  foreign = children();
}

std::optional<pid_t> find_ended_child(bool waits) {
  siginfo_t info{};
  int result = 0;
  do result = waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | (waits ? 0 : WNOHANG));
  while (result != 0 && errno == EINTR);
  if (result != 0 || info.si_pid == 0) return {};
  return info.si_pid;
}

int reap_child(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  std::erase(foreign, process);  // another process may get the number
  return status;
}

std::string text_of_status(int status) {
  if (!WIFSIGNALED(status)) return concat("exit code ", WEXITSTATUS(status));
  return concat("killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
}

int reap_group(pid_t leader) {
  kill(-leader, SIGKILL);
  return reap_child(leader);
}

void end_children(const std::function<void(pid_t process, int status)>& ended) {
  for (;;) {
    bool has_own = false;
    for (const pid_t child : children())
      if (!is_foreign(child)) {
        kill(child, SIGKILL);
        has_own = true;
      }
    const auto process = find_ended_child(/*waits=*/has_own);
    if (!process) return;
    ended(*process, is_foreign(*process) ? reap_child(*process) : reap_group(*process));
  }
}

}  // namespace ringrad
