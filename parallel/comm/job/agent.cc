#include "ringrad/parallel/comm/job/agent.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "ringrad/parallel/comm/common/culprit_report.h"
#include "ringrad/parallel/comm/common/running_time.h"
#include "ringrad/parallel/comm/common/system_limits.h"
#include "ringrad/parallel/comm/job/child_process.h"
#include "ringrad/parallel/comm/job/line_reader.h"
#include "ringrad/parallel/comm/job/message_stream.h"
#include "ringrad/parallel/comm/store/store_protocol.h"

namespace ringrad {
namespace {

constexpr std::size_t kMostUnsent = 1 << 20;  // then ranks wait until the launcher has taken some
constexpr int kMostRanks = 4096;              // of one host, and before it
constexpr auto kJobTime = std::chrono::seconds(30);   // for the job to come
constexpr auto kFlushTime = std::chrono::seconds(5);  // for the last words to go

struct Rank {
  pid_t process;
  LineReader out, err;
  Descriptor report;
  bool ended = false;
};

class Agent {
 public:
  Agent(pid_t parent, const struct sigaction& on_broken_pipe, Where where)
      : parent_(parent),
        on_broken_pipe_(on_broken_pipe),
        where_(where),
        signals_({SIGTERM}),
        stream_(Descriptor(STDIN_FILENO), Descriptor(STDOUT_FILENO), kLongestFromLauncher) {}

  void run() {
    stream_.send(Message::hello, kAgentVersion);
    try {
      while (!is_over()) {
        poll_once();
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
      for (const int which : {1, 2}) pass_on_the_rest(rank, which);
    RunningTime flushing(kListenTime);
    while (stream_.num_unsent() > 0 && flushing.advance() < kFlushTime) {
      pollfd writable{stream_.out(), POLLOUT, 0};
      poll(&writable, 1, static_cast<int>(kListenTime.count()));
      stream_.write_some();
    }
  }

 private:
  bool is_over() {
    if (has_lost_parent_ || !stream_.is_open()) return true;
    if (!job_) return waits_for_job_.advance() > kJobTime;
    return job_->patience.count() > 0 && stream_.silence() > job_->patience;
  }

  static LineReader& reader_of(Rank& rank, int which) { return which == 1 ? rank.out : rank.err; }

  void poll_once() {
    std::vector<pollfd> waited = {{signals_.number(), POLLIN, 0},
                                  {stream_.in(), POLLIN, 0},
                                  {stream_.num_unsent() > 0 ? stream_.out() : -1, POLLOUT, 0}};
    const std::size_t num_own = waited.size();
    const bool may_read = !is_held_ && stream_.num_unsent() < kMostUnsent;
    for (Rank& rank : ranks_)
      for (const int which : {1, 2})
        waited.push_back({may_read ? reader_of(rank, which).number() : -1, POLLIN, 0});
    if (poll(waited.data(), waited.size(), static_cast<int>(kListenTime.count())) <= 0) return;
    for (std::size_t i = num_own; i < waited.size(); ++i)
      if (waited[i].revents)
        pass_on(ranks_[(i - num_own) / 2], 1 + static_cast<int>((i - num_own) % 2));
    if (waited[2].revents) stream_.write_some();
    if (waited[1].revents) hear();
    if (waited[0].revents) take_signal();
  }

  // What sends the rank's lines to the launcher.
  auto sender_for(const Rank& rank, int which) {
    const auto number = job_->first_rank + (&rank - ranks_.data());
    return [this, number, which](const std::string& line, bool is_complete) {
      stream_.send(is_complete ? Message::line : Message::progress,
                   concat(number, ' ', which, ' ') + line);
    };
  }

  void pass_on(Rank& rank, int which) { reader_of(rank, which).read_some(sender_for(rank, which)); }

  // All writers have ended, except one that had no business with a rank's terminal.
  void pass_on_the_rest(Rank& rank, int which) {
    LineReader& reader = reader_of(rank, which);
    const auto has_more = [&] {
      pollfd readable{reader.number(), POLLIN, 0};
      return poll(&readable, 1, 0) > 0;
    };
    while (reader.is_open() && has_more()) pass_on(rank, which);
    reader.end(sender_for(rank, which));
  }

  void hear() {
    stream_.read_some();
    while (const auto message = stream_.next(where_)) {
      if (message->kind == Message::job) start(AgentJob::parse(message->text, where_));
      if (message->kind == Message::signal)
        if (const auto signal = parse_rank_message("0 " + message->text))
          for (const Rank& rank : ranks_)
            if (!rank.ended) kill(-rank.process, signal->number);
      if (message->kind == Message::hold) is_held_ = message->text == "1";
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
      stream_.keep_alive();  // many ranks take long to start
      Pipe report = make_pipe(where_);
      make_non_blocking(report.out);
      make_non_blocking(report.in);
      std::vector<std::string> own = job_->variables;
      own.push_back(report_variable(report.in));
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
                                        .has_terminal = true,
                                        .report = report.in.number(),
                                        .on_broken_pipe = on_broken_pipe_},
                                       where_);
      ranks_.push_back({child.process, LineReader(std::move(child.out)),
                        LineReader(std::move(child.err)), std::move(report.out)});
    }
  }

  void take_signal() {
    // Sent when the parent ends. Others may send it to all processes of a job: then the launcher
    // will tell.
    if (signals_.take() == SIGTERM) has_lost_parent_ = getppid() != parent_;
    while (const auto process = find_ended_child(false))
      note_end(*process, is_rank(*process) ? reap_group(*process) : reap_child(*process));
  }

  // Others are what ranks have left behind, which may lead groups that still work.
  bool is_rank(pid_t process) const {
    return std::any_of(ranks_.begin(), ranks_.end(),
                       [&](const Rank& rank) { return rank.process == process && !rank.ended; });
  }

  void note_end(pid_t process, int status) {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i].process != process || ranks_[i].ended) continue;
      ranks_[i].ended = true;
      const int rank = job_->first_rank + static_cast<int>(i);
      if (const auto culprit = read_report(ranks_[i].report))
        stream_.send(Message::blames, concat(rank, ' ', *culprit));
      stream_.send(Message::ended, concat(rank, ' ', status));
    }
  }

  const pid_t parent_;
  const struct sigaction on_broken_pipe_;
  const Where where_;
  const SignalReader signals_;
  MessageStream stream_;
  RunningTime waits_for_job_{kListenTime};
  std::optional<AgentJob> job_;
  std::vector<Rank> ranks_;
  bool has_lost_parent_ = false;
  bool is_held_ = false;  // the launcher has more output than it can write
};

}  // namespace

// --- Job ---

// Strings may hold any byte but 0, which ends each.
std::string AgentJob::text() const {
  std::string out;
  const auto put = [&](const auto& value) { out += concat(value, '\0'); };
  put(first_rank);
  put(num_ranks);
  put(pin);
  put(patience.count());
  put(folder);
  put(variables.size());
  for (const std::string& variable : variables) put(variable);
  for (const std::string& argument : program) put(argument);
  return out;
}

AgentJob AgentJob::parse(std::string_view text, Where where) {
  const auto check = [&](bool holds, const char* what) {
    RINGRAD_CHECK(holds, Error, where, "launch: a job must be as its launcher wrote it; got ",
                  what);
  };
  const auto get = [&] {
    const auto end = text.find('\0');
    check(end != text.npos, "one that ends early");
    const std::string_view value = text.substr(0, end);
    text.remove_prefix(end + 1);
    return std::string(value);
  };
  const auto get_number = [&](std::int64_t least, std::int64_t most) {
    const auto number = parse_number(get());
    check(number && *number >= least && *number <= most, "another number than it may hold");
    return *number;
  };
  constexpr std::int64_t kLongestPatience_ms = 24 * 3600 * 1000;
  AgentJob job;
  job.first_rank = static_cast<int>(get_number(0, kMostRanks));
  job.num_ranks = static_cast<int>(get_number(1, kMostRanks));
  job.pin = get_number(0, 1) != 0;
  job.patience = std::chrono::milliseconds(get_number(0, kLongestPatience_ms));
  job.folder = get();
  for (auto left = get_number(0, std::ssize(text)); left > 0; --left)
    job.variables.push_back(get());
  while (!text.empty()) job.program.push_back(get());
  check(!job.program.empty(), "no program");
  return job;
}

// --- Processes ---

pid_t fork_agent(const Descriptor& in, const Descriptor& out,
                 const struct sigaction& on_broken_pipe, Where where) {
  const pid_t parent = getpid(), child = fork();
  RINGRAD_CHECK(child >= 0, Error, where, "launch: a process must be made; got ",
                text_of_errno(errno));
  if (child > 0) return child;
  // A terminal's signals are for the launcher, which passes them on. Ranks are in this session: in
  // the background of a terminal, one that reads /dev/tty would be stopped for ever.
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  dup2(in.number(), STDIN_FILENO);
  dup2(out.number(), STDOUT_FILENO);
  close_range(3, ~0U, 0);  // an end that is held here would never be seen to close
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
  const int status = reap_child(agent);
  end_children([](pid_t, int) {});
  return status == 0 ? 0 : 1;
}

}  // namespace ringrad
