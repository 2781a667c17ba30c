#include "ringrad/parallel/comm/gpu/rank_watch.h"

#include <string>

namespace ringrad {

void throw_late_rank(const LateRank& late) {
  const bool of_one = late.peer >= 0;
  const char* found = late.aborted ? "; got a broken group" : "; got nothing";
  const std::string whom =
      of_one ? concat(late.aborted ? " while waiting for rank " : " from rank ", late.peer) : "";
  throw CollectiveError(
      concat(late.operation, " #", late.sequence, " on rank ", late.rank,
             ": every rank must arrive on its GPU within ", late.seconds, " s", found, whom),
      late.where);
}

}  // namespace ringrad
