#include "ringrad/parallel/comm/job/launcher.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "ringrad/parallel/comm/common/culprit_report.h"
#include "ringrad/parallel/comm/common/running_time.h"
#include "ringrad/parallel/comm/group_options.h"
#include "ringrad/parallel/comm/job/agent_link.h"
#include "ringrad/parallel/comm/job/job_output.h"
#include "ringrad/parallel/comm/job/job_record.h"
#include "ringrad/parallel/comm/record/fault_injection.h"
#include "ringrad/parallel/comm/store/store_server.h"

extern char** environ;

namespace ringrad {
namespace {

constexpr auto kEndTime = std::chrono::seconds(5);  // for agents to end what they have
constexpr auto kHostTimeout = std::chrono::seconds(10);
// How much output may wait to be written before the ranks wait, too. A job that prints 1 KiB per
// second goes on for 18 hours.
constexpr std::size_t kMostUnwritten = 64 << 20;

// One run of the job, from the first rank's start to the last one's end.
class Job {
 public:
  Job(const LaunchOptions& options, int attempt, const SignalReader& signals, JobOutput& output,
      Where where)
      : options_(options),
        attempt_(attempt),
        signals_(signals),
        output_(output),
        where_(where),
        name_(concat(std::chrono::system_clock::now().time_since_epoch().count(), '.', getpid())),
        record_(options.hosts) {}
  ~Job() { end_everything(); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void run() {
    start();
    while (record_.num_running() > 0) {
      poll_once();
      find_lost_hosts();
      if (!interrupted_ && !record_.failed_at()) continue;
      if (!ends_for_) ends_for_.emplace(kListenTime);
      const auto spent = ends_for_->advance();
      if (spent > options_.grace && !std::exchange(sent_term_, true)) {
        record_.close();
        signal_all(SIGTERM);
      }
      if (spent > 2 * options_.grace) break;
    }
    end_everything();
    if (could_not_start_) throw Error(*could_not_start_, where_);
  }

  /// The signal that ended it, or 0.
  int interrupted() const { return interrupted_; }
  const JobRecord& record() const { return record_; }

 private:
  void start() {
    output_.begin_run(attempt_, record_.num_ranks(), where_);
    // Agents are forked before the store has threads, and while those of the output do nothing.
    {
      const auto locks = output_.lock();
      for (const Host& host : options_.hosts)
        links_.emplace_back(host, timeout_of(host),
                            start_agent(host, options_.remote_shell, options_.ringrun,
                                        signals_.on_broken_pipe(), where_));
    }
    server_ = std::make_unique<StoreServer>(
        StoreAddress{.host = options_.bind, .port = options_.port, .token = make_token()}, where_);
  }

  std::optional<std::chrono::milliseconds> timeout_of(const Host& host) const {
    if (options_.host_timeout || host.is_here()) return options_.host_timeout;
    return kHostTimeout;
  }

  AgentJob job_of(std::size_t host) const {
    const Host& own = options_.hosts[host];
    AgentJob job{.program = options_.program,
                 .first_rank = record_.first_rank(host),
                 .num_ranks = own.num_ranks,
                 .pin = options_.pin,
                 .patience = own.is_here() ? std::chrono::milliseconds()
                                           : options_.host_timeout.value_or(kHostTimeout)};
    std::error_code gone;
    if (!own.is_here()) job.folder = std::filesystem::current_path(gone);
    job.variables = {concat("WORLD_SIZE=", record_.num_ranks()),
                     concat("LOCAL_WORLD_SIZE=", own.num_ranks),
                     concat("GROUP_RANK=", host),
                     concat("GROUP_WORLD_SIZE=", links_.size()),
                     concat("MASTER_ADDR=", own.is_here() ? options_.bind : options_.master_addr),
                     concat("MASTER_PORT=", server_->address().port),
                     "RINGRAD_TOKEN=" + server_->address().token,
                     "RINGRAD_LAUNCHER_SERVES_STORE=1",
                     "RINGRAD_JOB=" + name_,
                     concat("RINGRAD_RESTART_COUNT=", attempt_)};
    // No colours in files: the ranks' own terminals do not lead to one.
    if (!isatty(STDOUT_FILENO)) job.variables.emplace_back("TERM=dumb");
    // A launcher that a rank has started inherits the plan for that rank's job.
    if (!options_.inject.empty() || std::getenv(kReportVariable))
      job.variables.push_back("RINGRAD_INJECT=" + options_.inject);
    for (char** variable = environ; *variable; ++variable)
      if (is_for_ranks(*variable) && !is_set(job, *variable)) job.variables.emplace_back(*variable);
    return job;
  }

  // The pipe of a rank that has started this launcher is not for ranks of this job.
  static bool is_for_ranks(std::string_view variable) {
    return variable.starts_with("RINGRAD_") && !variable.starts_with(kReportVariable);
  }

  static bool is_set(const AgentJob& job, std::string_view variable) {
    const std::string_view name = variable.substr(0, variable.find('=') + 1);
    return std::any_of(job.variables.begin(), job.variables.end(),
                       [&](const std::string& v) { return v.starts_with(name); });
  }

  // --- What comes ---

  void poll_once() {
    std::vector<pollfd> waited = {{signals_.number(), POLLIN, 0}};
    for (const AgentLink& link : links_) link.add_waited(waited);
    for (AgentLink& link : links_) link.stream().keep_alive();
    hold_or_resume();
    output_.report_errors();
    if (poll(waited.data(), waited.size(), static_cast<int>(kListenTime.count())) <= 0) return;
    const pollfd* of_link = &waited[1];
    for (std::size_t h = 0; h < links_.size(); ++h, of_link += AgentLink::kNumWaited) {
      for (std::string& line : links_[h].take(of_link)) output_.write(2, std::move(line));
      while (const auto message = next_of(h)) hear(h, *message);
    }
    if (waited[0].revents) take_signal();
  }

  // Bytes that are no message come from a command that is no remote shell.
  std::optional<Message> next_of(std::size_t host) {
    try {
      return links_[host].stream().next(where_);
    } catch (const Error& error) {
      lose(host, std::string(error.message()));
      return {};
    }
  }

  void hear(std::size_t host, const Message& message) {
    if (!links_[host].is_greeted()) return greet(host, message);
    switch (message.kind) {
      case Message::failed:
        if (!could_not_start_)
          could_not_start_ =
              message.text + (links_.size() > 1 ? concat(" on ", options_.hosts[host].name) : "");
        return note_lost(host, message.text);
      case Message::leaving:
        return ending_ ? void() : note_lost(host, message.text);
      case Message::line:
      case Message::progress:
      case Message::blames:
      case Message::ended:
        if (const auto of_rank =
                parse_rank_message(message.text, message.kind == Message::blames ? kNobody : 0))
          if (record_.is_rank_of(host, of_rank->rank)) hear_of_rank(message.kind, *of_rank);
        return;
      default:
        return;
    }
  }

  // The launcher sends the job and its token only after the agent has greeted it.
  void greet(std::size_t host, const Message& message) {
    if (ending_) return;
    if (message.kind != Message::hello || message.text != kAgentVersion)
      return lose(host, concat("its ringrun must be \"", kAgentVersion, "\"; got \"",
                               shown(message.text), '"'));
    links_[host].greet();
    links_[host].stream().send(Message::job, job_of(host).text());
    if (is_holding_) links_[host].stream().send(Message::hold, "1");
  }

  // Only what the ranks write is held back. How they end, and that hosts live, is still heard.
  void hold_or_resume() {
    const bool is_full =
        output_.num_unwritten() > (is_holding_ ? kMostUnwritten / 2 : kMostUnwritten);
    if (is_full == std::exchange(is_holding_, is_full)) return;
    for (AgentLink& link : links_)
      if (link.is_greeted()) link.stream().send(Message::hold, is_full ? "1" : "0");
  }

  void hear_of_rank(Message::Kind kind, const RankMessage& message) {
    if (kind == Message::ended) return record_.note_end(message.rank, message.number);
    if (kind == Message::blames) return record_.note_blame(message.rank, message.number);
    const bool is_line = kind == Message::line;
    const std::string text = concat(message.text, is_line ? '\n' : '\r');
    output_.write(message.number == 1 ? 1 : 2, record_.prefix(message.rank) + text);  // one piece
    output_.log(message.rank, text);
    if (message.number == 2 && is_line) record_.add_error(message.rank, std::string(message.text));
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
    record_.note_lost(host, why, links_[host].last_errors());
  }

  void take_signal() {
    const int signal = signals_.take();
    if (signal == 0) return;
    if (signal == SIGCHLD) {
      while (const auto ended = find_ended_child(false)) note_child_end(*ended, reap_child(*ended));
      return;
    }
    signal_all(signal);
    if (signal == SIGUSR1 || signal == SIGUSR2 || interrupted_) return;
    interrupted_ = signal;
    ends_for_.emplace(kListenTime);
    record_.close();
  }

  void note_child_end(pid_t process, int status) {
    for (AgentLink& link : links_) link.note_end(process, status);
  }

  // --- The end ---

  void signal_all(int signal) {
    for (AgentLink& link : links_) link.stream().send(Message::signal, std::to_string(signal));
  }

  // An agent whose input is closed ends its ranks, and reports how they ended.
  void end_everything() {
    if (std::exchange(ending_, true)) return;
    record_.close();
    for (AgentLink& link : links_) link.stream().close_out();
    RunningTime ending(kListenTime);
    // An agent that is killed between its last message and its end would look like a host that is
    // lost.
    const auto goes_on = [](AgentLink& link) {
      return link.stream().is_open() || !link.has_ended();
    };
    while (ending.advance() < kEndTime && std::any_of(links_.begin(), links_.end(), goes_on))
      poll_once();
    end_children([&](pid_t process, int status) { note_child_end(process, status); });
    for (std::size_t h = 0; h < links_.size(); ++h)
      if (!links_[h].host().is_here() && links_[h].has_failed())
        note_lost(h, "its agent did not end with the job");
  }

  const LaunchOptions& options_;
  const int attempt_;
  const SignalReader& signals_;
  JobOutput& output_;
  const Where where_;
  const std::string name_;        // for job_name()
  std::vector<AgentLink> links_;  // (number of hosts)
  JobRecord record_;
  std::unique_ptr<StoreServer> server_;
  std::optional<std::string> could_not_start_;
  int interrupted_ = 0;
  std::optional<RunningTime> ends_for_;  // since the first failure or signal
  bool sent_term_ = false, ending_ = false, is_holding_ = false;
};

// Remote shells put what they are given into a line for a shell, or do not: it must mean the same
// to both.
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
  RINGRAD_CHECK(options.grace.count() >= 0, ValueError, where,
                "launch: grace must not be negative; got ", options.grace.count(), " ms");
  RINGRAD_CHECK(!options.host_timeout || options.host_timeout->count() > 0, ValueError, where,
                "launch: host_timeout must be positive; got ", options.host_timeout->count(),
                " ms");
  if (options.hosts.empty()) options.hosts = {{"localhost", options.num_ranks}};
  const int num_ranks = num_ranks_of(options.hosts);
  RINGRAD_CHECK(num_ranks <= kMaxRanks, ValueError, where, "launch: a job must have at most ",
                kMaxRanks, " ranks; got ", num_ranks);
  RINGRAD_CHECK(options.min_ranks >= 0 && options.min_ranks <= num_ranks, ValueError, where,
                "launch: min_ranks must be in [0, ", num_ranks, "], the ranks there are; got ",
                options.min_ranks);
  if (!are_all_here(options.hosts)) {
    check_ringrun(options.ringrun, where);
    RINGRAD_CHECK(!options.remote_shell.empty(), ValueError, where,
                  "launch: there must be a remote shell for hosts elsewhere; got none");
  }
  for (const PlannedFault& fault : parse_faults(options.inject, num_ranks, where))
    RINGRAD_CHECK(fault.restart <= options.max_restarts, ValueError, where,
                  "launch: a planned fault must be in one of ", options.max_restarts,
                  " restarts; got restart ", fault.restart);
  if (options.master_addr.empty()) options.master_addr = address_for(options.hosts, where);
  if (options.bind.empty()) options.bind = options.master_addr;
  return options;
}

struct Outcome {
  int code;    // of the job
  int signal;  // that ended it, or 0
};

Outcome run_attempts(LaunchOptions& options, const SignalReader& signals, JobOutput& output,
                     Where where) {
  for (int attempt = 0;; ++attempt) {
    Job job(options, attempt, signals, output, where);
    job.run();
    const JobRecord& record = job.record();
    output.write(2, record.report());
    const int code = record.exit_code();
    if (job.interrupted()) return {code, job.interrupted()};
    if (code == 0 || attempt == options.max_restarts) return {code, 0};
    if (options.min_ranks > 0) options.hosts = record.hosts_left();
    const int left = num_ranks_of(options.hosts);
    if (left < options.min_ranks) {
      output.write(2, concat("ringrun: no restart: at least ", options.min_ranks,
                             " ranks must be left; got ", left, '\n'));
      return {code, 0};
    }
    output.write(2, concat("ringrun: restart ", attempt + 1, " of ", options.max_restarts, " on ",
                           left, " ranks\n"));
  }
}

}  // namespace

int launch(const LaunchOptions& wanted, Where where) {
  LaunchOptions options = complete(wanted, where);
  const SignalReader signals({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2});
  JobOutput output(options.log_folder, where);
  inherit_orphans();
  if (wanted.master_addr.empty() && is_loopback(options.master_addr) &&
      !are_all_here(options.hosts))
    output.write(2, concat("ringrun: all hosts' names lead to this machine, so ranks look for the ",
                           "store at ", options.master_addr, "; --master-addr says otherwise\n"));
  try {
    const Outcome outcome = run_attempts(options, signals, output, where);
    const int signal = output.write_the_rest(signals, outcome.signal != 0);
    const int ended_by = outcome.signal ? outcome.signal : signal;
    if (outcome.code != 0) return outcome.code;
    if (ended_by != 0) return 128 + ended_by;
    return output.has_lost_some() ? 1 : 0;
  } catch (const Error&) {
    output.write_the_rest(signals, false);
    throw;
  }
}

}  // namespace ringrad
