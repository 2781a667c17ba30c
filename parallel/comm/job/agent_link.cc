#include "ringrad/parallel/comm/job/agent_link.h"

#include <sys/wait.h>

#include <csignal>
#include <utility>

namespace ringrad {
namespace {

// A child's exit code says more than the end of a connection, and comes a moment later.
constexpr auto kStatusTime = std::chrono::seconds(1);

}  // namespace

AgentProcess start_agent(const Host& host, std::vector<std::string> remote_shell,
                         const std::string& ringrun, const struct sigaction& on_broken_pipe,
                         Where where) {
  if (host.is_here()) {
    Pipe to = make_pipe(where), from = make_pipe(where);
    const pid_t process = fork_agent(to.out, from.in, on_broken_pipe, where);
    return {process, MessageStream(std::move(from.out), std::move(to.in), kLongestHello),
            Descriptor()};
  }
  remote_shell.insert(remote_shell.end(), {host.name, ringrun, "--agent"});
  ChildProcess shell = start_child({.program = std::move(remote_shell),
                                    .environment = environment_with({}),
                                    .reads = true,
                                    .in_own_session = true,
                                    .on_broken_pipe = on_broken_pipe},
                                   where);
  return {shell.process, MessageStream(std::move(shell.out), std::move(shell.in), kLongestHello),
          std::move(shell.err)};
}

AgentLink::AgentLink(Host host, std::optional<std::chrono::milliseconds> patience,
                     AgentProcess agent)
    : host_(std::move(host)),
      patience_(patience),
      process_(agent.process),
      stream_(std::move(agent.stream)),
      err_(std::move(agent.err)) {}

void AgentLink::add_waited(std::vector<pollfd>& waited) const {
  waited.push_back({stream_.in(), POLLIN, 0});
  waited.push_back({stream_.num_unsent() > 0 ? stream_.out() : -1, POLLOUT, 0});
  waited.push_back({err_.number(), POLLIN, 0});
}

void AgentLink::greet() {
  is_greeted_ = true;
  stream_.set_longest(kLongestFromAgent);
  silence_ = RunningTime(kListenTime);
}

std::vector<std::string> AgentLink::take(const pollfd* waited) {
  std::vector<std::string> lines;
  if (waited[2].revents)
    err_.read_some([&](const std::string& line, bool is_complete) {
      lines.push_back(concat('[', host_.name, "] ", line, is_complete ? '\n' : '\r'));
      if (is_complete) last_errors_.add(line);
    });
  if (waited[1].revents) stream_.write_some();
  if (waited[0].revents) {
    stream_.read_some();
    // Before the greeting any byte would do, so the greeting has a deadline of its own.
    if (is_greeted_) silence_ = RunningTime(kListenTime);
  }
  if (!stream_.is_open() && !closed_for_) closed_for_.emplace(kListenTime);
  return lines;
}

// Nothing is consumed: a later look finds the child stopped as well, until it runs again.
bool AgentLink::is_stopped() const {
  siginfo_t info{};
  return !status_ &&
         waitid(P_PID, static_cast<id_t>(process_), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == process_;
}

std::optional<std::string> AgentLink::why_lost() {
  if (closed_for_ && (closed_for_->advance() > kStatusTime || status_))
    return concat("its connection ended",
                  status_ ? concat(": ", text_of_status(*status_)) : std::string());
  if (!patience_ || !stream_.is_open()) return {};
  if (host_.is_here() && !is_stopped()) silence_ = RunningTime(kListenTime);
  if (silence_.advance() <= *patience_) return {};
  return concat("silent for ", std::chrono::duration<double>(*patience_).count(), " s");
}

void AgentLink::cut() {
  if (!status_) kill(process_, SIGKILL);
  stream_.close();
}

}  // namespace ringrad
