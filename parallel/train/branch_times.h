// BranchTimes: whether branches are worth running side by side, as measured in passes that are made anyway.
//
//     pass            1     2     3     4     5     6    ...  12          13 ...
//     in turn       first         x           x               x           |
//     side by side        first         x           x         |      x    |  the faster one
//
// The first pass of each way makes threads, plans and memory, and does not count; of the others the fastest does, since
// whatever disturbs a pass makes it slower. Passes of another shape begin anew.
//
// On a GPU times are those between events in its streams, looked at once they have come: the host waits for none.

#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/device.h"
#include "core/shape.h"
#include "core/stream.h"

namespace ringrad {

/// When the calling thread, or on a GPU its current stream, came here.
class Moment {
 public:
  explicit Moment(Device device);

  bool has_come() const;
  /// REQUIRES: both have come, on one device
  static double milliseconds(const Moment& begin, const Moment& end);

 private:
  std::variant<std::chrono::steady_clock::time_point, Event> at_;
};

/// One direction, forward or backward, of one set of branches.
class BranchTimes {
 public:
  enum Way { in_turn, side_by_side };

  /// What one pass did. Each branch writes to its own span, on any thread.
  struct Pass {
    struct Span {
      std::optional<Moment> begin, end;
    };
    Way way;
    Span all;
    std::vector<Span> branches;
  };

  /// The fastest pass of one way.
  struct Best {
    double milliseconds = 0, longest_branch = 0;
    int longest = 0;  ///< which branch that is
  };

  /// The faster way. Before that is known: the way to try next, or side by side if the next pass is no trial.
  Way choose(bool may_try);
  /// True while passes of this way and shape are to be measured.
  bool is_wanted(Way way, const Shape& shape);
  /// A pass of that way, which has been queued.
  void add(Pass pass);

  /// The fastest pass so far; nothing if there was none but the first.
  std::optional<Best> best(Way way);
  const Shape& shape() const { return shape_; }

 private:
  struct Results {
    int num_begun = 0, num_ended = 0;
    std::optional<Best> best;
  };

  void collect();
  void note(const Pass& pass);

  Shape shape_;
  std::array<Results, 2> results_;  // by way
  std::vector<Pass> pending_;       // not over yet
};

/// A table of both directions, and what follows from it.
std::string report_of(BranchTimes& forward, BranchTimes& backward);

}  // namespace ringrad
