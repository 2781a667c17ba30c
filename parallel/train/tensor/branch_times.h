// BranchTimes: whether branches are worth running side by side, measured in passes that run anyway.
//
//     pass            1     2     3     4     5     6    ...  12          13 ...
//     in turn       first         x           x               x           |
//     side by side        first         x           x         |      x    |  the faster one
//
// The first pass of each way sets up threads, plans and memory, and does not count. The fastest of
// the other passes counts, since every disturbance makes a pass slower. A pass of another shape
// starts over.
//
// On a GPU, times are those between events in its streams. They are read once the events have come:
// the host never waits for them.

#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/shape.h"
#include "ringrad/core/gpu/stream.h"

namespace ringrad {

/// The time when the calling thread, or on a GPU its current stream, reached this point.
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

  /// Measurements of one pass. Each branch writes to its own span, on any thread.
  struct BranchPass {
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
    int longest = 0;  ///< index of that branch
  };

  /// The faster way. Before that is known: the way to try next, or side by side if the next pass
  /// must not be a trial.
  Way choose(bool may_try);
  /// True while passes of this way and shape are still to be measured.
  bool is_wanted(Way way, const Shape& shape);
  /// Adds a queued pass of that way.
  void add(BranchPass pass);

  /// The fastest pass so far, not counting the first; none if there was no other.
  std::optional<Best> best(Way way);
  const Shape& shape() const { return shape_; }

 private:
  struct Results {
    int num_begun = 0, num_ended = 0;
    std::optional<Best> best;
  };

  void collect();
  void note(const BranchPass& pass);

  Shape shape_;
  std::array<Results, 2> results_;   // by way
  std::vector<BranchPass> pending_;  // not over yet
};

/// A table of both directions, and the choice that follows from it.
std::string report_of(BranchTimes& forward, BranchTimes& backward);

}  // namespace ringrad
