#include "parallel/comm/host_runner.h"

#include <array>
#include <chrono>
#include <cstring>

#include "core/trace.h"
#include "parallel/comm/reduce_terms.h"

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

void HostRunner::to_carrier(DType dtype, const std::byte* in, DType, std::byte* out,
                            std::int64_t count, Where) {
  ringrad::to_carrier(dtype, in, out, count);
}

void HostRunner::from_carrier(DType, const std::byte* in, DType dtype, std::byte* out,
                              std::int64_t count, Where) {
  ringrad::from_carrier(dtype, in, out, count);
}

// Where an element of a rank's memory lies.
std::byte* HostRunner::address(int peer, Area area, std::int64_t element,
                               const PlanData& own) const {
  const bool is_buffer = area == Area::buffer;
  std::byte* begin =
      peer == session_.rank()
          ? (is_buffer ? own.buffer : own.beside)
          : group_.address(peer, is_buffer ? group_.buffer_of(peer) : group_.beside_of(peer));
  return begin + element * size_bytes(own.dtype);
}

// --- Without a plan ---

bool HostRunner::try_all_reduce(Operation& operation, std::byte* data) {
  const CollectiveCall& call = operation.call;
  const GroupOptions& options = session_.options();
  const DType carrier = carrier_dtype(call.dtype);
  if (options.all_reduce || options.order == SumOrder::tree ||
      call.count > static_cast<std::int64_t>(RankGroup::kLetterBytes / size_bytes(carrier)))
    return false;
  const TraceSpan span("letter", "collective", [&] { return trace_args(operation); });
  ringrad::to_carrier(call.dtype, data, group_.next_letter(), call.count);
  session_.enter(operation, {}, session_.reserve(0), 0);
  terms_.clear();
  for (int r = 0; r < session_.world_size(); ++r) terms_.push_back(group_.letter_of(r));
  // Whole vectors are added, whatever lies behind the last element. Single elements would be stored one by one and
  // then read together, which a processor cannot forward: it would wait until all that it has stored, also for other
  // ranks, is out.
  constexpr std::size_t kVector = 64;
  const std::size_t bytes = static_cast<std::size_t>(call.count) * size_bytes(carrier);
  const std::size_t padded = (bytes + kVector - 1) / kVector * kVector;
  alignas(kVector) std::array<std::byte, RankGroup::kLetterBytes> sum;
  results_.assign(1, sum.data());
  reduce_terms(carrier, call.reduce, terms_, results_,
               static_cast<std::int64_t>(padded / size_bytes(carrier)), session_.world_size());
  ringrad::from_carrier(call.dtype, sum.data(), data, call.count);
  return true;
}

double HostRunner::seconds(const Operation&, const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// --- Running a plan ---

void HostRunner::run(const PlanPrograms& programs, Operation operation, PlanData data) {
  const TraceSpan span(programs.algorithm.c_str(), "collective",
                       [&] { return trace_args(operation); });
  const int rank = session_.rank();
  const PlanProgram& program = programs.ranks[rank];
  operation.call.plan = programs.fingerprint;
  data.cut_for(programs);
  std::shared_ptr<std::byte> beside;  // outlives `inside`: until then others may read it
  if (program.num_beside > 0 && data.beside == nullptr) {
    const std::int64_t count = data.range(program.num_beside - 1).end;
    beside = allocate(count * size_bytes(data.dtype), operation.where);
    data.beside = beside.get();
  }
  const std::uint64_t entered = session_.reserve(programs.max_length);
  const RankGroup::Inside inside(group_, operation);

  const std::size_t leading = program.num_leading;
  for (std::size_t i = 0; i < leading; ++i) stage(program.instructions[i], data);
  const PlaceNames names{group_.distance(rank, data.buffer),
                         data.beside == nullptr ? 0 : group_.distance(rank, data.beside)};
  session_.enter(operation, names, entered, program.num_leading);
  std::size_t next = 1;  // publication; entering was the first
  for (std::size_t i = leading; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    stage(instruction, data);
    if (is_receive(instruction.op)) receive(instruction, operation, data, entered);
    if (next < program.publications.size() && i + 1 == program.publications[next])
      group_.publish(entered + program.publications[next++]);
  }
  for (const Milestone& last_read : program.last_reads)
    group_.wait(operation, last_read.rank, entered + last_read.progress, entered);
  group_.check_whole(operation);  // others may have left before this rank's last chunk
}

void HostRunner::stage(const Instruction& instruction, const PlanData& data) const {
  if (instruction.op != StepOp::stage) return;
  const TraceSpan span(name(instruction.op), "step", [&] { return trace_args(instruction); });
  const ElementRange from = data.range(instruction.place.part),
                     to = data.range(instruction.copy.part);
  copy_elements(address(session_.rank(), instruction.copy.area, to.begin, data),
                address(session_.rank(), instruction.place.area, from.begin, data), from.size(),
                data.dtype);
}

void HostRunner::receive(const Instruction& instruction, Operation& operation, const PlanData& data,
                         std::uint64_t entered) {
  const TraceSpan span(name(instruction.op), "step", [&] { return trace_args(instruction); });
  const int rank = session_.rank();
  const ElementRange range = data.range(instruction.place.part);
  const auto at = [&](int peer, Place place) {
    // Terms of a sum are parts alike; dividing once is enough.
    const bool is_alike = place.part == instruction.place.part;
    const std::int64_t begin = is_alike ? range.begin : data.range(place.part).begin;
    return address(peer, place.area, begin, data);
  };
  group_.check_whole(operation);  // a rank that was late does not go on
  terms_.clear();
  for (const auto& [ready, place] : instruction.terms) {
    if (ready.rank != rank) {
      const TraceSpan wait("wait for a rank", "wait");
      group_.wait(operation, ready.rank, entered + ready.progress, entered);
    }
    terms_.push_back(at(ready.rank, place));
  }
  // A message without elements was waited for too: it may bring word that a loan was read.
  if (instruction.delivered || range.size() == 0) return;
  std::byte* own = at(rank, instruction.place);
  if (instruction.op == StepOp::recv)
    return copy_elements(own, terms_[0], range.size(), data.dtype);
  results_.assign(1, own);
  for (const auto& [receiver, place] : instruction.deliver_to)
    results_.push_back(at(receiver, place));
  const int divisor = instruction.completes ? session_.world_size() : 1;
  reduce_terms(data.dtype, operation.call.reduce, terms_, results_, range.size(), divisor);
}

}  // namespace ringrad
