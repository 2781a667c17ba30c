#include "ringrad/parallel/comm/memory/host_runner.h"

#include <array>
#include <chrono>
#include <cstring>

#include "ringrad/core/trace.h"
#include "ringrad/parallel/comm/blocks/reduce_terms.h"
#include "ringrad/parallel/comm/memory/plan_run.h"

namespace ringrad {
namespace {

void copy_elements(std::byte* to, const std::byte* from, std::int64_t count, DType dtype) {
  if (count > 0) std::memcpy(to, from, count * size_bytes(dtype));
}

// What traces say of a collective, and of a step of its plan.
std::string trace_args(const Operation& operation) {
  return concat("\"call\":\"", operation, "\",\"sequence\":", operation.sequence);
}

std::string trace_args(const Instruction& instruction) {
  std::string peers;
  for (const Term& term : instruction.terms)
    peers += concat(peers.empty() ? "" : ",", term.ready.rank);
  return concat("\"step\":", instruction.step, ",\"chunk\":", instruction.chunk, ",\"peers\":[",
                peers, ']');
}

}  // namespace

// --- Memory ---

std::shared_ptr<std::byte> HostRunner::allocate(std::size_t bytes, Where where) {
  return session_.memory()->allocate(bytes, where);
}

bool HostRunner::is_visible(const std::byte* p) const { return session_.memory()->is_visible(p); }

void HostRunner::clear(std::byte* p, std::size_t bytes, Where) { std::memset(p, 0, bytes); }

void HostRunner::copy(std::byte* to, const std::byte* from, std::size_t bytes, Where) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

DType HostRunner::carrier(DType dtype, const PlanPrograms&) const { return carrier_dtype(dtype); }

void HostRunner::convert(DType from, const std::byte* in, DType to, std::byte* out,
                         std::int64_t count, Where) {
  if (to == carrier_dtype(from))
    to_carrier(from, in, out, count);
  else
    from_carrier(to, in, out, count);
}

// --- Without a plan ---

bool HostRunner::try_all_reduce(Operation& operation, std::byte* data) {
  const CollectiveCall& call = operation.call;
  const GroupOptions& options = session_.options();
  const DType carrier = carrier_dtype(call.dtype);
  if (options.all_reduce || options.order == SumOrder::tree ||
      call.count > static_cast<std::int64_t>(RankGroup::kEagerBytes / size_bytes(carrier)))
    return false;
  const TraceSpan span("eager", "collective", [&] { return trace_args(operation); });
  to_carrier(call.dtype, data, group_.next_eager(), call.count);
  session_.enter(operation, {}, session_.reserve(0), 0);
  terms_.clear();
  for (int r = 0; r < session_.world_size(); ++r) terms_.push_back(group_.eager_of(r));
  // Whole vectors are added, whatever lies behind the last element. Single elements would be stored
  // one by one and then read together, which a processor cannot forward: it would wait until all
  // that it has stored, also for other ranks, is out.
  constexpr std::size_t kVector = 64;
  const std::size_t bytes = static_cast<std::size_t>(call.count) * size_bytes(carrier);
  const std::size_t padded = (bytes + kVector - 1) / kVector * kVector;
  alignas(kVector) std::array<std::byte, RankGroup::kEagerBytes> sum;
  results_.assign(1, sum.data());
  reduce_terms(carrier, call.reduce, terms_, results_,
               static_cast<std::int64_t>(padded / size_bytes(carrier)), session_.world_size());
  from_carrier(call.dtype, sum.data(), data, call.count);
  return true;
}

double HostRunner::seconds(const Operation&, const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// --- Running a plan ---

class HostRunner::Run final : public PlanRun {
 public:
  Run(HostRunner& runner, const PlanPrograms& programs, Operation& operation, const PlanData& data)
      : PlanRun(runner.session_, runner, programs, operation, data),
        terms_(runner.terms_),
        results_(runner.results_) {}

 private:
  void stage(const Instruction& instruction) override {
    const TraceSpan span(name(instruction.op), "step", [&] { return trace_args(instruction); });
    const ElementRange from = data_.range(instruction.place.part),
                       to = data_.range(instruction.copy.part);
    copy_elements(address(rank(), instruction.copy.area, to.begin),
                  address(rank(), instruction.place.area, from.begin), from.size(), data_.dtype);
  }

  void receive(const Instruction& instruction) override {
    const TraceSpan span(name(instruction.op), "step", [&] { return trace_args(instruction); });
    const ElementRange range = data_.range(instruction.place.part);
    const auto at = [&](int peer, ChunkPlace place) {
      // Terms of a sum are parts alike; dividing once is enough.
      const bool is_alike = place.part == instruction.place.part;
      return address(peer, place.area, is_alike ? range.begin : data_.range(place.part).begin);
    };
    terms_.clear();
    for (const auto& [ready, place] : instruction.terms) {
      if (ready.rank != rank()) {
        const TraceSpan wait("wait for a rank", "wait");
        wait_for(ready);
      }
      terms_.push_back(at(ready.rank, place));
    }
    // The rank waits for a message without elements, too: it may say that a chunk has been read.
    if (instruction.delivered || range.size() == 0) return;
    std::byte* own = at(rank(), instruction.place);
    if (instruction.op == StepOp::recv)
      return copy_elements(own, terms_[0], range.size(), data_.dtype);
    results_.assign(1, own);
    for (const auto& [receiver, place] : instruction.deliver_to)
      results_.push_back(at(receiver, place));
    const int divisor = instruction.completes ? session_.world_size() : 1;
    reduce_terms(data_.dtype, operation_.call.reduce, terms_, results_, range.size(), divisor);
  }

  void wait_for(const Milestone& milestone) override {
    group_.wait(operation_, milestone.rank, entered_ + milestone.progress, entered_);
  }

  std::uintptr_t name_of(const std::byte* own) const override {
    return group_.distance(rank(), own);
  }
  std::byte* reach(int peer, std::uintptr_t name) const override {
    return group_.address(peer, name);
  }

  std::vector<const std::byte*>& terms_;
  std::vector<std::byte*>& results_;
};

void HostRunner::run(const PlanPrograms& programs, Operation operation, PlanData data) {
  const TraceSpan span(programs.algorithm.c_str(), "collective",
                       [&] { return trace_args(operation); });
  Run run(*this, programs, operation, data);
  const RankGroup::Inside inside(group_, operation);
  run.walk();
}

}  // namespace ringrad
