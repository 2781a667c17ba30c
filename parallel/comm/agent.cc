#include "parallel/comm/agent.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <thread>

#include "parallel/comm/child_process.h"
#include "parallel/comm/line_reader.h"
#include "parallel/comm/message_stream.h"
#include "parallel/comm/system_limits.h"

namespace ringrad {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostUnsent = 1 << 20;  // then ranks wait until the launcher has taken some
constexpr auto kJobTime = std::chrono::seconds(30);   // for the job to come
constexpr auto kFlushTime = std::chrono::seconds(5);  // for the last words to go

struct Rank {
  pid_t process;
  LineReader out, err;
  bool ended = false;
};

class Agent {
 public:
  Agent(pid_t parent, const struct sigaction& on_broken_pipe, Where where)
      : parent_(parent),
        on_broken_pipe_(on_broken_pipe),
        where_(where),
        signals_({SIGTERM}),
        stream_(Descriptor(STDIN_FILENO), Descriptor(STDOUT_FILENO)) {}

  void run() {
    stream_.send(Message::hello, kAgentVersion);
    try {
      while (!is_over()) {
        poll_once(std::chrono::milliseconds(500));
        stream_.keep_alive();
      }
    } catch (const Error& error) {
      stream_.send(Message::failed, std::string(error.message()));
    }
    if (has_lost_parent_)
      stream_.send(Message::leaving, "the first process of its agent was ended");
    else if (stream_.is_open())
      stream_.send(Message::leaving, "its agent heard nothing from here");
    end_children([&](pid_t process, int status) { note_end(process, status); });
    for (Rank& rank : ranks_)
      for (const int which : {1, 2})
        while (reader_of(rank, which).is_open()) pass_on(rank, which);
    const auto end = Clock::now() + kFlushTime;
    while (stream_.num_unsent() > 0 && Clock::now() < end) {
      pollfd writable{stream_.out(), POLLOUT, 0};
      poll(&writable, 1, 100);
      stream_.write_some();
    }
  }

 private:
  bool is_over() const {
    const std::chrono::milliseconds patience = job_ ? job_->patience : kJobTime;
    return has_lost_parent_ || !stream_.is_open() ||
           (patience.count() > 0 && stream_.silence() > patience);
  }

  static LineReader& reader_of(Rank& rank, int which) { return which == 1 ? rank.out : rank.err; }

  void poll_once(std::chrono::milliseconds longest) {
    std::vector<pollfd> waited = {{signals_.number(), POLLIN, 0},
                                  {stream_.in(), POLLIN, 0},
                                  {stream_.num_unsent() > 0 ? stream_.out() : -1, POLLOUT, 0}};
    const std::size_t num_own = waited.size();
    const bool may_read = stream_.num_unsent() < kMostUnsent;
    for (Rank& rank : ranks_)
      for (const int which : {1, 2})
        waited.push_back({may_read ? reader_of(rank, which).number() : -1, POLLIN, 0});
    if (poll(waited.data(), waited.size(), static_cast<int>(longest.count())) <= 0) return;
    for (std::size_t i = num_own; i < waited.size(); ++i)
      if (waited[i].revents) pass_on(ranks_[(i - num_own) / 2], 1 + (i - num_own) % 2);
    if (waited[2].revents) stream_.write_some();
    if (waited[1].revents) hear();
    if (waited[0].revents) take_signal();
  }

  void pass_on(Rank& rank, std::size_t which) {
    const auto number = job_->first_rank + (&rank - ranks_.data());
    reader_of(rank, static_cast<int>(which)).read_some([&](const std::string& line) {
      stream_.send(Message::line, concat(number, ' ', which, ' ') + line);
    });
  }

  void hear() {
    stream_.read_some();
    while (const auto message = stream_.next(where_)) {
      if (message->kind == Message::job) start(AgentJob::parse(message->text, where_));
      if (message->kind == Message::signal)
        for (const Rank& rank : ranks_)
          if (!rank.ended) kill(-rank.process, std::atoi(message->text.c_str()));
    }
  }

  void start(AgentJob job) {
    RINGRAD_CHECK(!job_, Error, where_, "launch: an agent must have one job; got a second");
    job_ = std::move(job);
    RINGRAD_CHECK(job_->folder.empty() || chdir(job_->folder.c_str()) == 0, Error, where_,
                  "launch: ranks must start where the launcher is; got \"", std::strerror(errno),
                  "\" from ", job_->folder);
    const std::vector<int> allowed = job_->pin ? allowed_cpus() : std::vector<int>();
    const auto share = std::ssize(allowed) / job_->num_ranks;
    for (int local = 0; local < job_->num_ranks; ++local) {
      std::vector<std::string> own = job_->variables;
      own.push_back(concat("RANK=", job_->first_rank + local));
      own.push_back(concat("LOCAL_RANK=", local));
      // The ranks share the processors.
      if (!std::getenv("OMP_NUM_THREADS")) {
        const int processors = static_cast<int>(std::thread::hardware_concurrency());
        own.push_back(concat("OMP_NUM_THREADS=", std::max(1, processors / job_->num_ranks)));
      }
      const auto first = allowed.begin() + local * share;
      ChildProcess child = start_child({.program = job_->program,
                                        .environment = environment_with(std::move(own)),
                                        .cpus = {first, first + share},
                                        .on_broken_pipe = on_broken_pipe_},
                                       where_);
      ranks_.push_back(
          {child.process, LineReader(std::move(child.out)), LineReader(std::move(child.err))});
    }
  }

  void take_signal() {
    // Sent when the parent ends. Others may send it to all processes of a job: then the launcher will tell.
    if (signals_.take() == SIGTERM) has_lost_parent_ = getppid() != parent_;
    int status = 0;
    for (pid_t process; (process = waitpid(-1, &status, WNOHANG)) > 0;) note_end(process, status);
  }

  void note_end(pid_t process, int status) {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i].process != process || ranks_[i].ended) continue;
      ranks_[i].ended = true;
      kill(-process, SIGKILL);  // what it leaves behind
      stream_.send(Message::ended, concat(job_->first_rank + static_cast<int>(i), ' ', status));
    }
  }

  const pid_t parent_;
  const struct sigaction on_broken_pipe_;
  const Where where_;
  const SignalReader signals_;
  MessageStream stream_;
  std::optional<AgentJob> job_;
  std::vector<Rank> ranks_;
  bool has_lost_parent_ = false;
};

}  // namespace

// --- Job ----------------------------------------------------------------------------------------------

// Strings may hold any byte but 0, which ends each.
std::string AgentJob::text() const {
  std::ostringstream out;
  const auto put = [&](const auto& value) { out << value << '\0'; };
  put(first_rank);
  put(num_ranks);
  put(pin);
  put(patience.count());
  put(folder);
  put(variables.size());
  for (const std::string& variable : variables) put(variable);
  for (const std::string& argument : program) put(argument);
  return std::move(out).str();
}

AgentJob AgentJob::parse(const std::string& text, Where where) {
  std::istringstream in(text);
  const auto get = [&] {
    std::string value;
    std::getline(in, value, '\0');
    return value;
  };
  AgentJob job;
  job.first_rank = std::atoi(get().c_str());
  job.num_ranks = std::atoi(get().c_str());
  job.pin = get() == "1";
  job.patience = std::chrono::milliseconds(std::atoll(get().c_str()));
  job.folder = get();
  const std::string num_variables = get();
  for (int i = std::atoi(num_variables.c_str()); i > 0 && in; --i) job.variables.push_back(get());
  for (std::string argument; std::getline(in, argument, '\0');) job.program.push_back(argument);
  RINGRAD_CHECK(!job.program.empty() && job.num_ranks >= 1, Error, where,
                "launch: a job must have a program and ranks; got \"", text, '"');
  return job;
}

// --- Processes ----------------------------------------------------------------------------------------

pid_t fork_agent(const Descriptor& in, const Descriptor& out,
                 const struct sigaction& on_broken_pipe, Where where) {
  const pid_t parent = getpid(), child = fork();
  RINGRAD_CHECK(child >= 0, Error, where, "launch: a process must be made; got ",
                text_of_errno(errno));
  if (child > 0) return child;
  setpgid(0, 0);  // a terminal's signals are for the launcher, which passes them on
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  dup2(in.number(), STDIN_FILENO);
  dup2(out.number(), STDOUT_FILENO);
  close_range(3, ~0U, 0);  // an end that is held here would never be seen to close
  std::signal(SIGPIPE, SIG_IGN);
  inherit_orphans();
  Agent(parent, on_broken_pipe, where).run();
  _exit(0);
}

int run_agent(Where where) {
  struct sigaction on_broken_pipe {};
  sigaction(SIGPIPE, nullptr, &on_broken_pipe);
  inherit_orphans();
  Descriptor in(STDIN_FILENO), out(STDOUT_FILENO);
  const pid_t agent = fork_agent(in, out, on_broken_pipe, where);
  in.reset();
  out.reset();
  int status = 0;
  while (waitpid(agent, &status, 0) < 0 && errno == EINTR) {
  }
  end_children([](pid_t, int) {});
  return status == 0 ? 0 : 1;
}

}  // namespace ringrad
