// The predicted time of a plan: a simulation of its messages under a model of links and arithmetic.
//
//   alpha   seconds from sending a message's first byte to its arrival, whatever the message's size
//   beta    seconds per byte that a message occupies a link
//   gamma   seconds per byte that is added, or copied to be staged
//
// A message of B bytes on idle links takes alpha + B beta. Alpha does not occupy a link: several
// messages can be in transit at once. Bytes do occupy it, first come first served, at both ends:
//
//     rank 0's way out   [ B beta ]                       `start`: the message sets out
//     rank 1's way in       alpha -> [ B beta ]           `end`: it is wholly there
//
// The model's wiring says which messages share a link:
//
//   ports   each rank has one port to the ranks of its host and one to those of other hosts; a port
//           carries one message out and one in at a time, as a switch's does
//   wires   each ordered pair of ranks has a link of its own, so a rank can talk to all at once
//   reads   sent data stays in place, and its receiver fetches one message after another: in memory
//           that all ranks see, sending occupies no rank
//
// README.md says more: "Simulated plans and formulas".
//
// Papers: Hockney 1994, "The communication challenge for MPP"; Thakur, Rabenseifner and Gropp 2005,
// "Optimization of collective communication operations in MPICH".

#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

struct LinkCost {
  double alpha_s = 0;
  double beta_s_per_byte = 0;
};

enum class Wiring : std::uint8_t { ports, wires, reads };

struct CostModel {
  LinkCost within_host = {};
  LinkCost between_hosts = within_host;
  double gamma_s_per_byte = 0;
  /// Rank r is on host r / ranks_per_host; by default all ranks are on one host.
  int ranks_per_host = std::numeric_limits<int>::max();
  Wiring wiring = Wiring::ports;
  int slots = 1;
};

/// When a step happens, in seconds after the collective begins. A send: from when its message sets
/// out to its arrival. A receive: from when all its terms have arrived to when the result exists. A
/// stage: the copying.
struct StepTime {
  double start_s = 0;
  double end_s = 0;
};

/// The times of all steps, in the order of plan.steps, for a buffer of `bytes` (in an all_to_all,
/// the data that each rank begins with). Deterministic.
///
/// REQUIRES: plan_check proves the plan for `model.slots`
/// Throws:   std::invalid_argument unless bytes >= 0, slots >= 1, ranks_per_host >= 1, the plan's
///           shape is right (plan_shape_check), and it runs to its end
std::vector<StepTime> plan_timeline(const CollectivePlan& plan, std::int64_t bytes,
                                    const CostModel& model);

/// The end of the last step. Throws as plan_timeline.
double predicted_seconds(const CollectivePlan& plan, std::int64_t bytes, const CostModel& model);

}  // namespace ringrad
