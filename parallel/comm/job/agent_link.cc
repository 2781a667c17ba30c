#include "ringrad/parallel/comm/job/agent_link.h"

#include <csignal>
#include <cstdio>
#include <utility>

namespace ringrad {
namespace {

using Clock = MessageStream::Clock;

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
                                    .on_broken_pipe = on_broken_pipe},
                                   where);
  return {shell.process, MessageStream(std::move(shell.out), std::move(shell.in), kLongestHello),
          std::move(shell.err)};
}

AgentLink::AgentLink(Host host, std::chrono::milliseconds patience, AgentProcess agent)
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

void AgentLink::take(const pollfd* waited) {
  if (waited[2].revents)
    err_.read_some([&](const std::string& line) {
      const std::string whole = concat('[', host_.name, "] ", line, '\n');
      std::fwrite(whole.data(), 1, whole.size(), stderr);
      last_errors_.add(line);
    });
  if (waited[1].revents) stream_.write_some();
  if (waited[0].revents) stream_.read_some();
  if (!stream_.is_open() && !closed_since_) closed_since_ = Clock::now();
}

std::optional<std::string> AgentLink::why_lost() const {
  if (closed_since_ && (status_ || Clock::now() - *closed_since_ > kStatusTime))
    return concat("its connection ended",
                  status_ ? concat(": ", text_of_status(*status_)) : std::string());
  // Any byte resets the silence timer, so the greeting has a deadline of its own.
  const auto silence = is_greeted_ ? stream_.silence() : Clock::now() - begin_;
  if (stream_.is_open() && silence > patience_)
    return concat("silent for ", std::chrono::duration<double>(patience_).count(), " s");
  return {};
}

void AgentLink::cut() {
  if (!status_) kill(process_, SIGKILL);
  stream_.close();
}

}  // namespace ringrad
