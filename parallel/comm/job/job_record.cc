#include "ringrad/parallel/comm/job/job_record.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/culprit_report.h"
#include "ringrad/parallel/comm/job/child_process.h"

namespace ringrad {
namespace {

// A rank that sees another one die throws, and exits with a code, which may be heard of first. So
// of failures this close together, one by a signal is the cause.
constexpr auto kTie = std::chrono::milliseconds(250);

int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

JobRecord::JobRecord(std::vector<Host> hosts) : hosts_(std::move(hosts)), lost_(hosts_.size()) {
  for (std::size_t h = 0; h < hosts_.size(); ++h)
    ranks_.insert(ranks_.end(), static_cast<std::size_t>(hosts_[h].num_ranks), {h});
}

int JobRecord::num_running() const {
  return static_cast<int>(
      std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.is_running; }));
}

int JobRecord::first_rank(std::size_t host) const {
  int first = 0;
  for (std::size_t h = 0; h < host; ++h) first += hosts_[h].num_ranks;
  return first;
}

bool JobRecord::is_rank_of(std::size_t host, int rank) const {
  return rank >= 0 && rank < num_ranks() && at(rank).host == host;
}

std::string JobRecord::prefix(int rank) const {
  return is_one_host() ? concat('[', rank, "] ")
                       : concat('[', rank, '@', hosts_[at(rank).host].name, "] ");
}

std::string JobRecord::name_of(int rank) const {
  return is_one_host() ? concat("rank ", rank)
                       : concat("rank ", rank, " on ", hosts_[at(rank).host].name);
}

// --- What comes ---

void JobRecord::note_blame(int rank, int culprit) {
  if (!is_closed_ && culprit >= kNobody && culprit < num_ranks()) at(rank).blames = culprit;
}

void JobRecord::note_end(int rank, int status, Clock::time_point now) {
  const bool counts = std::exchange(at(rank).is_running, false);  // not after its host was lost
  if (!counts || is_closed_) return;
  at(rank).status = status;
  at(rank).ended_at = now;
  if (status == 0) return;
  if (!first_)
    first_ = {false, rank, now};
  else if (!first_->is_host && !ended_by_signal(first_->number) && ended_by_signal(rank) &&
           now - first_->at <= kTie)
    first_->number = rank;
}

void JobRecord::note_lost(std::size_t host, const std::string& why,
                          const std::deque<std::string>& last_lines, Clock::time_point now) {
  if (lost_[host]) return;
  lost_[host] = {why, last_lines, !is_closed_};
  bool any = false;
  for (Rank& rank : ranks_)
    if (rank.host == host) any |= std::exchange(rank.is_running, false);
  if (any && !is_closed_ && !first_) first_ = {true, static_cast<int>(host), now};
}

bool JobRecord::ended_by_signal(int rank) const {
  return at(rank).status && WIFSIGNALED(*at(rank).status);
}

bool JobRecord::has_failed(int rank) const { return at(rank).status.value_or(0) != 0; }

// --- What follows ---

bool JobRecord::was_killed(int rank) const {
  return ended_by_signal(rank) && WTERMSIG(*at(rank).status) == SIGKILL;
}

// Ranks that blame each other in a circle are late for each other: then the first one's word
// counts. No rank kills itself.
int JobRecord::culprit_of(int rank) const {
  std::vector<bool> seen(ranks_.size(), false);
  for (int culprit = rank;;) {
    const std::optional<int> blamed = at(culprit).blames;
    if (!blamed || *blamed == culprit) return culprit;
    if (*blamed == kNobody) return was_killed(culprit) ? culprit : kNobody;
    seen[static_cast<std::size_t>(culprit)] = true;
    culprit = *blamed;
    if (seen[static_cast<std::size_t>(culprit)]) return *at(rank).blames;
  }
}

std::optional<std::size_t> JobRecord::host_lost_in_time() const {
  const auto found = std::find_if(lost_.begin(), lost_.end(),
                                  [](const auto& lost) { return lost && lost->in_time; });
  if (found == lost_.end()) return {};
  return static_cast<std::size_t>(found - lost_.begin());
}

std::optional<int> JobRecord::first_that_knows_a_culprit() const {
  const auto when = [&](int rank) {
    return at(rank).ended_at - (ended_by_signal(rank) ? kTie : kTie.zero());
  };
  std::optional<int> first;
  for (int rank = 0; rank < num_ranks(); ++rank)
    if (has_failed(rank) && culprit_of(rank) != kNobody && (!first || when(rank) < when(*first)))
      first = rank;
  return first;
}

struct JobRecord::Verdict {
  std::optional<std::size_t> host;  // that is lost, or
  int rank = kNobody;               // a rank, or nobody
  int witness = kNobody;            // the rank that blames it, or the same
};

// REQUIRES: there is a failure
JobRecord::Verdict JobRecord::verdict() const {
  if (first_->is_host) return {static_cast<std::size_t>(first_->number)};
  int witness = first_->number;
  if (culprit_of(witness) == kNobody) {
    if (const auto host = host_lost_in_time()) return {host};
    witness = first_that_knows_a_culprit().value_or(witness);
  }
  const int culprit = culprit_of(witness);
  if (culprit == kNobody) return {{}, kNobody, witness};
  if (!at(culprit).status && lost_[at(culprit).host]) return {at(culprit).host};
  return {{}, culprit, has_failed(culprit) ? culprit : witness};
}

std::optional<JobRecord::Clock::time_point> JobRecord::failed_at() const {
  return first_ ? std::optional(first_->at) : std::nullopt;
}

int JobRecord::exit_code() const {
  if (!first_) return 0;
  const Verdict verdict = this->verdict();
  return verdict.host ? 1 : code_of(*at(verdict.witness).status);
}

std::string JobRecord::report() const {
  if (!first_) return {};
  const auto [host, culprit, witness] = verdict();
  std::string text;
  const auto add_lines = [&](const std::string& prefix, const std::deque<std::string>& lines) {
    for (const std::string& line : lines) text += concat("ringrun:   ", prefix, line, '\n');
  };
  if (host) {
    text = concat("ringrun: host ", hosts_[*host].name, " failed first: ", lost_[*host]->why, '\n');
    add_lines("", lost_[*host]->last_lines);
    return text;
  }
  if (culprit == kNobody) {
    text = concat("ringrun: ", name_of(witness), " noticed a failure first (",
                  text_of_status(*at(witness).status), "); no rank is known to be to blame\n");
    add_lines("", at(witness).errors.lines());
    return text;
  }
  const std::optional<int>& status = at(culprit).status;
  text = concat("ringrun: ", name_of(culprit),
                " failed first: ", status ? text_of_status(*status) : "still running");
  if (witness != culprit)
    text +=
        concat(", blamed by ", name_of(witness), " (", text_of_status(*at(witness).status), ')');
  text += '\n';
  add_lines("", at(culprit).errors.lines());
  if (witness != culprit) add_lines(prefix(witness), at(witness).errors.lines());
  return text;
}

std::vector<Host> JobRecord::hosts_left() const {
  const std::optional<int> culprit = first_ ? std::optional(verdict().rank) : std::nullopt;
  const auto is_left = [&](int rank) {
    return rank != culprit && !was_killed(rank) && !lost_[at(rank).host];
  };
  std::vector<Host> left = hosts_;
  for (Host& host : left) host.num_ranks = 0;
  for (int rank = 0; rank < num_ranks(); ++rank) left[at(rank).host].num_ranks += is_left(rank);
  std::erase_if(left, [](const Host& host) { return host.num_ranks == 0; });
  return left;
}

}  // namespace ringrad
