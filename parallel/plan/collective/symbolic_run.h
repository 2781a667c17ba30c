// SymbolicRun: a plan run on symbolic values, so that one run covers all data.
//
// It ends at the first faulty step: one that uses a chunk without a value, or adds a rank's
// contribution a second time.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ringrad/parallel/plan/collective/chunk_table.h"
#include "ringrad/parallel/plan/collective/collective_plan.h"
#include "ringrad/parallel/plan/collective/replay.h"
#include "ringrad/parallel/plan/collective/symbolic_values.h"

namespace ringrad {

class SymbolicRun {
 public:
  using Value = SymbolicValues::Value;

  /// Stops where the replay got stuck.
  ///
  /// REQUIRES: run = replay(plan, ...); no chunk is overwritten during a zero-copy read, so a
  ///           receiver reads what the sender held when it sent. Both arguments outlive this
  ///           object.
  SymbolicRun(const CollectivePlan& plan, const Replay& run);

  /// The faulty step, and the reason.
  struct Fault {
    int step_index;
    bool is_duplicate;  ///< else a value is missing
    std::string text;
  };
  const std::optional<Fault>& fault() const { return fault_; }

  /// What a rank holds in a chunk in the end; kNone if unknown.
  Value held(int rank, int chunk) const {
    const Value written = written_(rank, chunk);
    return written == SymbolicValues::kNone ? input(rank, chunk) : written;
  }

  /// The value that a receiving step has written; kNone for other steps, and for those after a
  /// fault.
  Value made(int step_index) const { return made_[step_index]; }

  /// The initial value of a rank's chunk.
  Value input(int rank, int chunk) const;

  SymbolicValues& values() { return values_; }

 private:
  Value staged(int rank, int chunk) const { return staged_(rank, chunk); }
  std::optional<Fault> run_step(int index);
  Value add_terms(int index);

  const CollectivePlan& plan_;
  const Replay& run_;
  SymbolicValues values_;
  ChunkTable<Value> written_;  // the contents of chunks that differ from the input
  ChunkTable<Value> staged_;   // the copies in the staging buffers
  std::vector<Value> made_;    // (steps)
  std::optional<Fault> fault_;
};

}  // namespace ringrad
