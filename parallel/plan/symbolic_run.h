// SymbolicRun: a plan run on symbolic values, so that one run speaks for all data.
//
// It ends at the first step that has no meaning: one that uses a chunk without a value, or adds a
// rank's contribution a second time.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parallel/plan/chunk_table.h"
#include "parallel/plan/collective_plan.h"
#include "parallel/plan/replay.h"
#include "parallel/plan/symbolic_values.h"

namespace ringrad {

class SymbolicRun {
 public:
  using Value = SymbolicValues::Value;

  /// REQUIRES: run = replay(plan, ...), and no loan is overwritten: what a receiver reads is what the
  ///           sender held when it sent. Both outlive this object. A run that got stuck is as far as it came.
  SymbolicRun(const CollectivePlan& plan, const Replay& run);

  /// The step that has no meaning, and why.
  struct Fault {
    int step_index;
    bool is_duplicate;  ///< else a value is missing
    std::string text;
  };
  const std::optional<Fault>& fault() const { return fault_; }

  /// What a rank holds in a chunk in the end; kNone if nothing is known of it.
  Value held(int rank, int chunk) const {
    const Value written = written_(rank, chunk);
    return written == SymbolicValues::kNone ? input(rank, chunk) : written;
  }

  /// What a step that receives has written; kNone for others, and for those after a fault.
  Value made(int step_index) const { return made_[step_index]; }

  /// What a rank begins with in a chunk.
  Value input(int rank, int chunk) const;

  SymbolicValues& values() { return values_; }

 private:
  Value staged(int rank, int chunk) const { return staged_(rank, chunk); }
  std::optional<Fault> run_step(int index);
  Value add_terms(int index);

  const CollectivePlan& plan_;
  const Replay& run_;
  SymbolicValues values_;
  ChunkTable<Value> written_;  // what is in a chunk, if it is not the input
  ChunkTable<Value> staged_;   // the copies beside the buffers
  std::vector<Value> made_;    // (steps)
  std::optional<Fault> fault_;
};

}  // namespace ringrad
