// Programs as numbers in memory that ranks share: one rank proves and compiles a plan, and the
// other processes of the group read their programs there.

#pragma once

#include <cstdint>
#include <vector>

#include "ringrad/parallel/comm/memory/plan_program.h"

namespace ringrad {

std::vector<std::uint32_t> to_words(const PlanPrograms& programs);

/// The part of the programs that `rank` needs: its own program, and the other ranks' publications.
///
/// REQUIRES: `words` are those of to_words
PlanPrograms from_words(const std::uint32_t* words, int rank);

}  // namespace ringrad
