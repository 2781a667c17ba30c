#include "ringrad/parallel/train/tensor/branch_times.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <utility>

#include "ringrad/core/base/error.h"

namespace ringrad {
namespace {

constexpr int kPasses = 6;  // of each way: the first, and five that count

std::string advice_of(BranchTimes& times) {
  const auto in_turn = times.best(BranchTimes::in_turn);
  const auto side_by_side = times.best(BranchTimes::side_by_side);
  if (!in_turn || !side_by_side) return "not known: Mode::automatic measures both ways";
  return side_by_side->milliseconds < in_turn->milliseconds ? "side by side" : "in turn";
}

void print_row(std::ostream& out, const char* direction, BranchTimes& times) {
  const auto in_turn = times.best(BranchTimes::in_turn);
  const auto side_by_side = times.best(BranchTimes::side_by_side);
  const auto cell = [&](const auto& best, double BranchTimes::Best::*time) {
    if (best)
      out << std::setw(13) << (*best).*time;
    else
      out << std::setw(13) << '-';
  };
  out << std::left << std::setw(10) << direction << std::right;
  cell(in_turn, &BranchTimes::Best::milliseconds);
  cell(side_by_side, &BranchTimes::Best::milliseconds);
  const auto& latest = side_by_side ? side_by_side : in_turn;
  cell(latest, &BranchTimes::Best::longest_branch);
  out << (latest ? concat(" (", latest->longest, ')') : std::string("    "));
  if (in_turn && side_by_side)
    out << std::setw(11) << in_turn->milliseconds / side_by_side->milliseconds;
  else
    out << std::setw(11) << '-';
  out << "   " << advice_of(times) << '\n';
}

}  // namespace

Moment::Moment(Device device) : at_(std::chrono::steady_clock::now()) {
  if (device.is_cuda()) at_.emplace<Event>(current_stream(device), /*timing=*/true);
}

bool Moment::has_come() const {
  const Event* event = std::get_if<Event>(&at_);
  return !event || event->is_done();
}

double Moment::milliseconds(const Moment& begin, const Moment& end) {
  if (const Event* event = std::get_if<Event>(&begin.at_))
    return Event::milliseconds(*event, std::get<Event>(end.at_));
  return std::chrono::duration<double, std::milli>(std::get<0>(end.at_) - std::get<0>(begin.at_))
      .count();
}

BranchTimes::Way BranchTimes::choose(bool may_try) {
  collect();
  const auto& [turn, side] = results_;
  if (turn.num_ended >= kPasses && side.num_ended >= kPasses)
    return side.best->milliseconds < turn.best->milliseconds ? side_by_side : in_turn;
  const bool is_behind = turn.num_begun <= side.num_begun && turn.num_begun < kPasses;
  return may_try && is_behind ? in_turn : side_by_side;
}

bool BranchTimes::is_wanted(Way way, const Shape& shape) {
  const bool is_known = std::ranges::all_of(
      results_, [](const Results& results) { return results.num_begun >= kPasses; });
  if (shape != shape_ && !is_known) {
    shape_ = shape;
    results_ = {};
    pending_.clear();
  }
  return shape == shape_ && results_[way].num_begun < kPasses;
}

void BranchTimes::add(BranchPass pass) {
  ++results_[pass.way].num_begun;
  pending_.push_back(std::move(pass));
}

// Events of a stream come in order, so the passes of one way end in their order.
void BranchTimes::collect() {
  std::erase_if(pending_, [this](const BranchPass& pass) {
    if (!pass.all.end->has_come()) return false;
    note(pass);
    return true;
  });
}

void BranchTimes::note(const BranchPass& pass) {
  Results& results = results_[pass.way];
  if (results.num_ended++ == 0) return;
  const auto time_of = [](const BranchPass::Span& span) {
    return Moment::milliseconds(*span.begin, *span.end);
  };
  Best now{.milliseconds = time_of(pass.all)};
  for (std::size_t k = 0; k < pass.branches.size(); ++k) {
    const double time = time_of(pass.branches[k]);
    if (time <= now.longest_branch) continue;
    now.longest_branch = time;
    now.longest = static_cast<int>(k);
  }
  if (!results.best || now.milliseconds < results.best->milliseconds) results.best = now;
}

std::optional<BranchTimes::Best> BranchTimes::best(Way way) {
  collect();
  return results_[way].best;
}

std::string report_of(BranchTimes& forward, BranchTimes& backward) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(3)
      << "ms, best      in turn side by side longest branch   speed-up   advice\n";
  print_row(out, "forward", forward);
  print_row(out, "backward", backward);
  return std::move(out).str();
}

}  // namespace ringrad
