#include "parallel/comm/launcher.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "parallel/comm/agent_link.h"
#include "parallel/comm/chaos.h"
#include "parallel/comm/store.h"

extern char** environ;

namespace ringrad {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kEndTime = std::chrono::seconds(5);  // for agents to end what they have

// Who sees another rank die throws, and exits with a code, which may be heard of first. So of failures this close
// together, one by a signal is the cause.
constexpr auto kTie = std::chrono::milliseconds(250);

int exit_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

struct Rank {
  std::string prefix;
  bool running = true;
  bool killed = false;  // by somebody else
  LastLines errors{};
};

// What ended the job.
struct Failure {
  std::string who, how;
  int exit_code;
  const std::deque<std::string>* last_lines;
  bool by_signal;
  std::size_t first_rank, end_rank;  // whose failure it is
};

// One run of the job, from the first rank's start to the last one's end.
class Job {
 public:
  Job(const LaunchOptions& options, int attempt, const SignalReader& signals, Where where)
      : options_(options), attempt_(attempt), signals_(signals), where_(where) {}
  ~Job() { end_everything(); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void run() {
    start();
    while (num_running() > 0) {
      poll_once();
      find_lost_hosts();
      if (!failure_ && !interrupted_) continue;
      const auto since = Clock::now() - ending_since_;
      if (since > options_.grace && !sent_term_) {
        signal_all(SIGTERM);
        sent_term_ = true;
      }
      if (since > 2 * options_.grace) break;
    }
    end_everything();
    if (could_not_start_) throw Error(*could_not_start_, where_);
  }

  /// The signal that ended it, or 0.
  int interrupted() const { return interrupted_; }
  int exit_code() const { return failure_ ? failure_->exit_code : 0; }

  /// Where there are ranks that did not fail. REQUIRES: one did
  std::vector<Host> hosts_left() const {
    std::vector<Host> left = options_.hosts;
    std::size_t rank = 0;
    for (std::size_t h = 0; h < left.size(); ++h)
      for (int i = 0; i < options_.hosts[h].num_ranks; ++i, ++rank)
        left[h].num_ranks -=
            ranks_[rank].killed || (rank >= failure_->first_rank && rank < failure_->end_rank);
    std::erase_if(left, [](const Host& host) { return host.num_ranks == 0; });
    return left;
  }

  void report() const {
    if (!failure_) return;
    std::fprintf(stderr, "ringrun: %s failed first: %s\n", failure_->who.c_str(),
                 failure_->how.c_str());
    for (const std::string& line : *failure_->last_lines)
      std::fprintf(stderr, "ringrun:   %s\n", line.c_str());
  }

 private:
  void start() {
    // Agents are forked before the store has threads.
    for (const Host& host : options_.hosts) {
      links_.emplace_back(host, options_.host_timeout,
                          start_agent(host, options_.remote_shell, options_.ringrun,
                                      signals_.on_broken_pipe(), where_));
      for (int i = 0; i < host.num_ranks; ++i) ranks_.push_back({prefix_of(host)});
    }
    server_ = std::make_unique<StoreServer>(
        StoreAddress{.host = options_.bind, .port = options_.port, .token = make_token()}, where_);
    for (std::size_t h = 0; h < links_.size(); ++h)
      links_[h].stream().send(Message::job, job_of(h).text());
  }

  bool is_one_host() const { return options_.hosts.size() == 1 && options_.hosts[0].is_here(); }

  std::string prefix_of(const Host& host) const {
    const std::size_t rank = ranks_.size();
    return is_one_host() ? concat('[', rank, "] ") : concat('[', rank, '@', host.name, "] ");
  }

  std::string place_of(std::size_t host) const {
    return is_one_host() ? "" : concat(" on ", options_.hosts[host].name);
  }

  int first_rank(std::size_t host) const {
    int first = 0;
    for (std::size_t h = 0; h < host; ++h) first += options_.hosts[h].num_ranks;
    return first;
  }

  AgentJob job_of(std::size_t host) const {
    const Host& own = options_.hosts[host];
    AgentJob job{.program = options_.program,
                 .first_rank = first_rank(host),
                 .num_ranks = own.num_ranks,
                 .pin = options_.pin,
                 .patience = own.is_here() ? std::chrono::milliseconds() : options_.host_timeout};
    std::error_code gone;
    if (!own.is_here()) job.folder = std::filesystem::current_path(gone);
    job.variables = {concat("WORLD_SIZE=", ranks_.size()),
                     concat("LOCAL_WORLD_SIZE=", own.num_ranks),
                     concat("GROUP_RANK=", host),
                     concat("GROUP_WORLD_SIZE=", links_.size()),
                     "MASTER_ADDR=" + options_.master_addr,
                     concat("MASTER_PORT=", server_->address().port),
                     "RINGRAD_TOKEN=" + server_->address().token,
                     concat("RINGRAD_RESTART_COUNT=", attempt_)};
    if (!options_.chaos.empty()) job.variables.push_back("RINGRAD_CHAOS=" + options_.chaos);
    for (char** variable = environ; *variable; ++variable)
      if (std::string_view(*variable).starts_with("RINGRAD_") && !is_set(job, *variable))
        job.variables.emplace_back(*variable);
    return job;
  }

  static bool is_set(const AgentJob& job, std::string_view variable) {
    const std::string_view name = variable.substr(0, variable.find('=') + 1);
    return std::any_of(job.variables.begin(), job.variables.end(),
                       [&](const std::string& v) { return v.starts_with(name); });
  }

  int num_running() const {
    return static_cast<int>(
        std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.running; }));
  }

  // --- What comes ---

  void poll_once() {
    std::vector<pollfd> waited = {{signals_.number(), POLLIN, 0}};
    for (const AgentLink& link : links_) link.add_waited(waited);
    for (AgentLink& link : links_) link.stream().keep_alive();
    if (poll(waited.data(), waited.size(), 100) <= 0) return;
    const pollfd* of_link = &waited[1];
    for (std::size_t h = 0; h < links_.size(); ++h, of_link += AgentLink::kNumWaited) {
      links_[h].take(of_link);
      while (const auto message = next_of(h)) hear(h, *message);
    }
    std::fflush(stdout);
    if (waited[0].revents) take_signal();
  }

  // What is no message comes from a remote shell that is none.
  std::optional<Message> next_of(std::size_t host) {
    try {
      return links_[host].stream().next(where_);
    } catch (const Error& error) {
      lose(host, std::string(error.message()));
      return {};
    }
  }

  void hear(std::size_t host, const Message& message) {
    std::istringstream text(message.text);
    std::size_t rank = 0;
    int number = 0;
    switch (message.kind) {
      case Message::hello:
        if (message.text != kAgentVersion)
          lose(host,
               concat("its ringrun must be \"", kAgentVersion, "\"; got \"", message.text, '"'));
        return;
      case Message::failed:
        if (!could_not_start_) could_not_start_ = message.text + place_of(host);
        return note_lost(host, message.text);
      case Message::leaving:
        return note_lost(host, message.text);
      case Message::line:
        text >> rank >> number;
        if (text.get() == ' ' && is_rank_of(host, rank))
          write_line(ranks_[rank], number,
                     message.text.substr(static_cast<std::size_t>(text.tellg())));
        return;
      case Message::ended:
        text >> rank >> number;
        if (text && is_rank_of(host, rank)) note_end(host, rank, number);
        return;
      default:
        return;
    }
  }

  bool is_rank_of(std::size_t host, std::size_t rank) const {
    const auto first = static_cast<std::size_t>(first_rank(host));
    return rank >= first && rank < first + static_cast<std::size_t>(options_.hosts[host].num_ranks);
  }

  static void write_line(Rank& rank, int stream, const std::string& line) {
    const std::string whole = rank.prefix + line + '\n';
    std::fwrite(whole.data(), 1, whole.size(), stream == 1 ? stdout : stderr);  // in one piece
    if (stream == 2) rank.errors.add(line);
  }

  void note_end(std::size_t host, std::size_t rank, int status) {
    const bool counts = std::exchange(ranks_[rank].running, false);  // not after its host was lost
    if (!counts || status == 0) return;
    ranks_[rank].killed =
        WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !sent_term_ && !ending_;
    fail({concat("rank ", rank, place_of(host)), text_of_status(status), ringrad::exit_code(status),
          &ranks_[rank].errors.lines(), WIFSIGNALED(status), rank, rank + 1});
  }

  void find_lost_hosts() {
    for (std::size_t h = 0; h < links_.size(); ++h)
      if (const auto why = links_[h].why_lost()) lose(h, *why);
  }

  void lose(std::size_t host, const std::string& why) {
    links_[host].cut();
    note_lost(host, why);
  }

  // Its ranks are the agent's to end, if there still is one.
  void note_lost(std::size_t host, const std::string& why) {
    bool any = false;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (is_rank_of(host, r)) any |= std::exchange(ranks_[r].running, false);
    if (any)
      fail({concat("host ", options_.hosts[host].name), why, 1, &links_[host].last_errors(), false,
            static_cast<std::size_t>(first_rank(host)),
            static_cast<std::size_t>(first_rank(host) + options_.hosts[host].num_ranks)});
  }

  void fail(Failure failure) {
    if (interrupted_ || ending_) return;
    const auto now = Clock::now();
    if (!failure_)
      ending_since_ = now;
    else if (!failure.by_signal || failure_->by_signal || sent_term_ || now - ending_since_ > kTie)
      return;
    failure_ = std::move(failure);
  }

  void take_signal() {
    const int signal = signals_.take();
    if (signal == 0) return;
    if (signal == SIGCHLD) {
      int status = 0;
      for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;) note_child_end(ended, status);
      return;
    }
    signal_all(signal);
    if (signal == SIGUSR1 || signal == SIGUSR2 || interrupted_) return;
    interrupted_ = signal;
    ending_since_ = Clock::now();
  }

  void note_child_end(pid_t process, int status) {
    for (AgentLink& link : links_) link.note_end(process, status);
  }

  // --- The end ---

  void signal_all(int signal) {
    for (AgentLink& link : links_) link.stream().send(Message::signal, std::to_string(signal));
  }

  // Agents end what they have when nobody speaks to them any more, and say what came of it.
  void end_everything() {
    if (std::exchange(ending_, true)) return;
    for (AgentLink& link : links_) link.stream().close_out();
    const auto end = Clock::now() + kEndTime;
    const auto is_open = [](AgentLink& link) { return link.stream().is_open(); };
    while (Clock::now() < end && std::any_of(links_.begin(), links_.end(), is_open)) poll_once();
    end_children([&](pid_t process, int status) { note_child_end(process, status); });
  }

  const LaunchOptions& options_;
  const int attempt_;
  const SignalReader& signals_;
  const Where where_;
  std::vector<AgentLink> links_;  // (number of hosts)
  std::vector<Rank> ranks_;       // (world_size)
  std::unique_ptr<StoreServer> server_;
  std::optional<Failure> failure_;
  std::optional<std::string> could_not_start_;
  int interrupted_ = 0;
  bool sent_term_ = false, ending_ = false;
  Clock::time_point ending_since_;
};

// Remote shells put what they are given into a line for a shell, or do not: it must mean the same to both.
void check_ringrun(const std::string& path, Where where) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("/._-+@%=:,").find(static_cast<char>(c)) != std::string_view::npos;
  };
  RINGRAD_CHECK(!path.empty() && std::all_of(path.begin(), path.end(), is_plain), ValueError, where,
                "launch: the path of ringrun on other hosts must be of letters, digits, and "
                "/ . _ - + @ % = : , only; got \"",
                path, '"');
}

// The options, with what follows from them.
LaunchOptions complete(LaunchOptions options, Where where) {
  RINGRAD_CHECK(!options.program.empty(), ValueError, where,
                "launch: there must be a program; got none");
  RINGRAD_CHECK(options.num_ranks >= 1, ValueError, where,
                "launch: num_ranks must be positive; got ", options.num_ranks);
  RINGRAD_CHECK(options.max_restarts >= 0, ValueError, where,
                "launch: max_restarts must not be negative; got ", options.max_restarts);
  RINGRAD_CHECK(options.host_timeout.count() > 0, ValueError, where,
                "launch: host_timeout must be positive; got ", options.host_timeout.count(), " ms");
  if (options.hosts.empty()) options.hosts = {{"localhost", options.num_ranks}};
  RINGRAD_CHECK(options.min_ranks >= 0 && options.min_ranks <= num_ranks_of(options.hosts),
                ValueError, where, "launch: min_ranks must be in [0, ", num_ranks_of(options.hosts),
                "], the ranks there are; got ", options.min_ranks);
  const bool all_here = std::all_of(options.hosts.begin(), options.hosts.end(),
                                    [](const Host& host) { return host.is_here(); });
  if (!all_here) {
    check_ringrun(options.ringrun, where);
    RINGRAD_CHECK(!options.remote_shell.empty(), ValueError, where,
                  "launch: there must be a remote shell for hosts elsewhere; got none");
  }
  for (const ChaosFault& fault : parse_chaos(options.chaos, num_ranks_of(options.hosts), where))
    RINGRAD_CHECK(fault.restart <= options.max_restarts, ValueError, where,
                  "launch: a planned fault must be in one of ", options.max_restarts,
                  " restarts; got restart ", fault.restart);
  if (options.master_addr.empty()) options.master_addr = address_for(options.hosts, where);
  if (options.bind.empty()) options.bind = options.master_addr;
  return options;
}

}  // namespace

int launch(const LaunchOptions& wanted, Where where) {
  LaunchOptions options = complete(wanted, where);
  const SignalReader signals({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2});
  inherit_orphans();
  for (int attempt = 0;; ++attempt) {
    Job job(options, attempt, signals, where);
    job.run();
    job.report();
    if (job.interrupted()) return job.exit_code() ? job.exit_code() : 128 + job.interrupted();
    if (job.exit_code() == 0 || attempt == options.max_restarts) return job.exit_code();
    if (options.min_ranks > 0) options.hosts = job.hosts_left();
    const int left = num_ranks_of(options.hosts);
    if (left < options.min_ranks) {
      std::fprintf(stderr, "ringrun: no restart: at least %d ranks must be left; got %d\n",
                   options.min_ranks, left);
      return job.exit_code();
    }
    std::fprintf(stderr, "ringrun: restart %d of %d on %d ranks\n", attempt + 1,
                 options.max_restarts, left);
  }
}

}  // namespace ringrad
