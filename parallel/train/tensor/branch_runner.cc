#include "ringrad/parallel/train/tensor/branch_runner.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "ringrad/core/capture.h"
#include "ringrad/core/random/random.h"
#include "ringrad/kernels/library/shared_gpu.h"
#include "ringrad/parallel/comm/common/rethrow.h"
#include "ringrad/parallel/train/common/caller_state.h"
#include "ringrad/parallel/train/common/device_threads.h"

namespace ringrad {
namespace {

// The default generator of each branch at each replay of a captured pass. At a replay the host's
// part, drawing, happens again in the order of branches.
class ReplayedGenerators {
 public:
  void begin(int k) {
    if (k == 0) {
      caller_ = default_generator();
      furthest_ = caller_.offset();
    }
    default_generator() = generator_of_part(caller_, k);
  }
  void end() {
    furthest_ = std::max(furthest_, default_generator().offset());
    default_generator() = caller_;
    default_generator().set_offset(furthest_);
  }

 private:
  Generator caller_;
  std::uint64_t furthest_ = 0;
};

class Run {
 public:
  Run(BranchRunner& runner, BranchTimes& times, const Tensor& x, bool is_measured,
      const BranchBody& body);

  void all(Where where);

 private:
  BranchTimes::Way choose_way(bool may_try) const;
  void one_branch(int k, const Stream* stream);
  void in_turn(Where where);
  void on_threads(Where where);
  void on_streams(Where where);
  int num_branches() const { return static_cast<int>(runner_.names.size()); }

  BranchRunner& runner_;
  BranchTimes& times_;
  const Device device_;
  const BranchBody& body_;
  const CallerState caller_;
  BranchTimes::BranchPass pass_;
  const bool is_measured_;
  std::vector<std::exception_ptr> errors_;
  std::vector<std::uint64_t> offsets_;  // of the generators, after the pass
  std::shared_ptr<ReplayedGenerators> replayed_;
};

Run::Run(BranchRunner& runner, BranchTimes& times, const Tensor& x, bool is_measured,
         const BranchBody& body)
    : runner_(runner),
      times_(times),
      device_(x.device()),
      body_(body),
      pass_{.way = choose_way(is_measured && !is_capturing()),
            .all = {},
            .branches = std::vector<BranchTimes::BranchPass::Span>(runner.names.size())},
      is_measured_(is_measured && !is_capturing() && times.is_wanted(pass_.way, x.shape())),
      errors_(runner.names.size()),
      offsets_(runner.names.size()) {
  if (is_capturing()) replayed_ = std::make_shared<ReplayedGenerators>();
}

void Run::all(Where where) {
  if (is_measured_) pass_.all.begin.emplace(device_);
  if (pass_.way == BranchTimes::side_by_side)
    device_.is_cuda() ? on_streams(where) : on_threads(where);
  else
    in_turn(where);
  if (is_measured_) pass_.all.end.emplace(device_);
  Generator& generator = default_generator();
  generator.set_offset(std::max(generator.offset(), std::ranges::max(offsets_)));
  for (std::size_t k = 0; k < errors_.size(); ++k)
    if (errors_[k])
      rethrow_of(concat("Branches: branch ", k, " (", runner_.names[k], ')'), errors_[k], where);
  if (is_measured_) times_.add(std::move(pass_));
}

BranchTimes::Way Run::choose_way(bool may_try) const {
  const bool has_streams = device_.is_cuda() || (omp_get_max_threads() > 1 && !omp_in_parallel());
  if (num_branches() == 1 || !has_streams || runner_.must_be_in_turn ||
      runner_.mode == BranchMode::in_turn)
    return BranchTimes::in_turn;
  if (runner_.mode == BranchMode::side_by_side) return BranchTimes::side_by_side;
  return times_.choose(may_try);
}

// On any thread.
void Run::one_branch(int k, const Stream* stream) {
  const auto at = static_cast<std::size_t>(k);
  try {
    const AsCaller guard(caller_, k, caller_.device());
    std::optional<StreamGuard> on_stream;
    if (stream) on_stream.emplace(*stream);
    BranchTimes::BranchPass::Span& span = pass_.branches[at];
    if (is_measured_) span.begin.emplace(device_);
    if (replayed_) at_each_replay([all = replayed_, k] { all->begin(k); });
    body_(k);
    if (replayed_) at_each_replay([all = replayed_] { all->end(); });
    if (is_measured_) span.end.emplace(device_);
    offsets_[at] = default_generator().offset();
  } catch (...) {
    errors_[at] = std::current_exception();
  }
}

// A forward pass may have made memory on a branch's stream. That memory returns to its stream once
// backward has used it here, so the branches' streams must wait for this one.
void Run::in_turn(Where where) {
  for (int k = 0; k < num_branches(); ++k) one_branch(k, nullptr);
  if (device_.is_cpu() || is_capturing()) return;
  for (const Stream& stream : runner_.streams[device_.index])
    Event(current_stream(device_), /*timing=*/false, where).block(stream, where);
}

// A free thread takes the next branch. All teams have the same size, so it does not matter which
// thread that is.
void Run::on_threads(Where where) {
  const int num_threads = std::min(num_branches(), omp_get_max_threads());
  std::atomic<int> next = 0;
  threads_of_caller(num_threads)
      .run(
          num_threads,
          [&](int) {
            for (int k = next++; k < num_branches(); k = next++) one_branch(k, nullptr);
          },
          where);
}

// A branch begins after the work that is already on the caller's stream, and later work there
// begins after all branches. So each side may reuse its own memory once the other side has used it.
// The exception is results, which the caller may use on further streams.
void Run::on_streams(Where where) {
  std::vector<Stream>& streams = runner_.streams[device_.index];
  while (streams.size() < runner_.names.size()) streams.emplace_back(device_, where);
  const Stream callers = current_stream(device_);
  const Event begin(callers, /*timing=*/false, where);
  const SharedGpu shared(device_);
  for (int k = 0; k < num_branches(); ++k) {
    const Stream& stream = streams[static_cast<std::size_t>(k)];
    begin.block(stream, where);
    one_branch(k, &stream);
  }
  for (const Stream& stream : streams) Event(stream, /*timing=*/false, where).block(callers, where);
}

}  // namespace

void run_branches(BranchRunner& runner, BranchTimes& times, const Tensor& x, bool is_measured,
                  const BranchBody& body, Where where) {
  Run(runner, times, x, is_measured, body).all(where);
}

}  // namespace ringrad
