// Checks that all ranks agree: each rank writes down as text what must be the same on all of them,
// and the texts are compared before anything else is done.

#pragma once

#include <string>

#include "ringrad/parallel/comm/communicator.h"

namespace ringrad {

/// Rank 0's text, on all ranks.
std::string text_of_root(const std::string& ours, Communicator& comm, Where where);

/// The first line in which two texts differ, quoted from each of them: "weight float32 (3, 4)" and
/// "weight float32 (5, 4)".
std::string first_difference(const std::string& ours, const std::string& theirs);

/// Every rank must call it. `rule` says what must hold, and opens the message: "mesh: all ranks
/// must give the axes of rank 0".
///
/// Throws: CollectiveError on all ranks, naming those whose text differs from rank 0's; on these
///         ranks, it also quotes the first line that differs
void check_same_text(const std::string& rule, const std::string& ours, Communicator& comm,
                     Where where);

}  // namespace ringrad
