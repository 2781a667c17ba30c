#include "ringrad/parallel/comm/memory/plan_run.h"

namespace ringrad {

PlanRun::PlanRun(RankSession& session, PlanRunner& runner, const PlanPrograms& programs,
                 Operation& operation, PlanData data)
    : session_(session),
      group_(session.group()),
      programs_(programs),
      program_(programs.ranks[session.rank()]),
      operation_(operation),
      data_(data) {
  operation_.call.plan = programs.fingerprint;
  data_.cut_for(programs);
  if (program_.num_staged == 0 || data_.staging != nullptr) return;
  const std::int64_t count = data_.range(program_.num_staged - 1).end;
  staging_ = runner.allocate(count * size_bytes(data_.dtype), operation_.where);
  data_.staging = staging_.get();
}

void PlanRun::walk() {
  entered_ = session_.reserve(programs_.max_length);
  const std::size_t leading = program_.num_leading;
  for (std::size_t i = 0; i < leading; ++i)
    if (program_.instructions[i].op == StepOp::stage) stage(program_.instructions[i]);
  before_publication(0);
  const PlaceNames names{name_of(data_.buffer),
                         data_.staging == nullptr ? 0 : name_of(data_.staging)};
  session_.enter(operation_, names, entered_, program_.num_leading);
  std::size_t next = 1;
  for (std::size_t i = leading; i < program_.instructions.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    if (instruction.op == StepOp::stage) stage(instruction);
    if (is_receive(instruction.op)) {
      group_.check_whole(operation_);  // a rank that was late does not go on
      receive(instruction);
    }
    if (next < program_.publications.size() && i + 1 == program_.publications[next]) {
      before_publication(next);
      group_.publish(entered_ + program_.publications[next++]);
    }
  }
  for (const Milestone& last_read : program_.last_reads) wait_for(last_read);
  group_.check_whole(operation_);  // others may have left before this rank's last chunk
}

std::byte* PlanRun::address(int peer, Area area, std::int64_t element) const {
  const bool is_buffer = area == Area::buffer;
  std::byte* begin =
      peer == rank() ? (is_buffer ? data_.buffer : data_.staging)
                     : reach(peer, is_buffer ? group_.buffer_of(peer) : group_.staging_of(peer));
  return begin + element * size_bytes(data_.dtype);
}

}  // namespace ringrad
