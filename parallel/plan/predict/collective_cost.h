// The cost of an all_reduce, by formulas. They serve 10,000 ranks, whose ring would be a list of
// 2e8 steps to simulate (cost.h). An algorithm without a formula is simulated.
//
// n ranks, m of them on a host, S bytes; alpha, beta, gamma as in cost.h, those of the slower link
// where a step uses two kinds:
//
//   ring               2 (n-1) (alpha + S/n beta) + (n-1)/n S gamma
//   halving_doubling   sum_i 2 (alpha_i + S/2^i beta_i) + (1 - 1/n) S gamma    i = 1 ... log2 n
//                      + 2 (alpha + S beta) + S gamma                          (only if n != 2^k);
//                      distances under m stay inside hosts
//   two_shot           2 (alpha + (n-1)/n S beta) + (n-1)/n S gamma     n <= m; on wires S/n beta
//   one_shot             alpha + (n-1) S beta + n S gamma               n <= m; on wires S beta
//   nccl_double_tree   2 d (alpha + S/k beta) + (k-1) max(alpha + S/k beta, 2 S/k beta / 0.9)
//                      + S gamma    d = floor(log2 n), with the best k of 1, 2, 4, ...: two binary
//                      trees of half the buffer each, in k pieces; an inner rank of one is a leaf
//                      of the other, so 2 S passes each rank's port (S for n = 2, 3/2 S for 3, 4)
//   hierarchical       two shots inside each host, between them a ring of the hosts' ranks on S/m
//                      each: if m divides n
//   nccl_hierarchical_tree   the same with a double tree between the hosts
//
// Algorithms whose names begin with "nccl_" have no plans: NCCL runs them.
// README.md says more: "Formulas for 10,000 ranks".
//
// Papers: as in cost.h; Sanders, Speck and Träff 2009, "Two-tree algorithms for full bandwidth
//         broadcast, reduction and scan"

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringrad/parallel/plan/predict/cost.h"

namespace ringrad {

/// The algorithms that have a formula: some of algorithm_names(Collective::all_reduce), and NCCL's.
std::vector<std::string> all_reduce_formulas();

/// Seconds of an all_reduce of `bytes` over ranks 0 ... world_size - 1, for model.slots = 1.
///
/// Throws: std::invalid_argument unless the algorithm has a formula or is one of
///         algorithm_names(Collective::all_reduce) with at most 256 ranks, world_size >= 1,
///         bytes >= 0, the model's figures are finite and not negative, and the algorithm supports
///         these ranks
double all_reduce_seconds(std::string_view algorithm, int world_size, double bytes,
                          const CostModel& model);

struct AllReduceChoice {
  std::string algorithm;
  double seconds = 0;
};

/// The fastest of `algorithms` (default: all with a formula) that supports the ranks; the first
/// among equals.
///
/// Throws: std::invalid_argument if none does; as all_reduce_seconds
AllReduceChoice fastest_all_reduce(int world_size, double bytes, const CostModel& model,
                                   std::span<const std::string> algorithms = {});

/// Bus bandwidth, in bytes per second: 2 (n-1)/n S / t, as NCCL's tests report it. It can be
/// compared with a link's bandwidth, whatever n. 0 for one rank.
double bus_bandwidth(int world_size, double bytes, double seconds);

}  // namespace ringrad
