#include "ringrad/parallel/plan/predict/collective_cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ringrad/parallel/plan/collective/algorithms.h"
#include "ringrad/parallel/plan/collective/require.h"
#include "ringrad/parallel/plan/predict/layer_cost.h"

namespace ringrad {
namespace {

constexpr int kMostSegments = 1 << 16;
constexpr int kMostSimulated = 256;  // some plans have steps like the square of the ranks

// The share of a port's bandwidth that trees reach, as their steps get in each other's way. NCCL's
// tuner uses the same (src/graph/tuning.cc: busBw * .9).
constexpr double kTreeEfficiency = 0.9;

double message_s(const LinkCost& link, double bytes) {
  return link.alpha_s + bytes * link.beta_s_per_byte;
}

double hop_s(int n, double bytes, const CostModel& model) {
  if (n <= model.ranks_per_host) return message_s(model.within_host, bytes);
  if (model.ranks_per_host == 1) return message_s(model.between_hosts, bytes);
  // Some ranks send inside their host, and others to another host.
  return std::max(message_s(model.within_host, bytes), message_s(model.between_hosts, bytes));
}

double ring_s(int n, double S, const CostModel& model) {
  const double chunk = S / n;
  return (n - 1) * (2 * hop_s(n, chunk, model) + chunk * model.gamma_s_per_byte);
}

double halving_doubling_s(int n, double S, const CostModel& model) {
  const int nodes = static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
  double seconds = 0, bytes = S / 2;
  for (int distance = 1; distance < nodes; distance *= 2, bytes /= 2) {
    // Blocks of neighbours that fill hosts exactly have their partners inside them.
    const bool stays_inside =
        n <= model.ranks_per_host || (nodes == n && model.ranks_per_host % (2 * distance) == 0);
    const LinkCost& link = stays_inside ? model.within_host : model.between_hosts;
    seconds += 2 * message_s(link, bytes) + bytes * model.gamma_s_per_byte;
  }
  if (nodes < n) seconds += 2 * hop_s(2, S, model) + S * model.gamma_s_per_byte;
  return seconds;
}

// Every rank sends `bytes` to each of the others.
double shot_s(int n, double bytes, const CostModel& model) {
  return message_s(model.within_host, (model.wiring == Wiring::wires ? 1 : n - 1) * bytes);
}

double two_shot_s(int n, double S, const CostModel& model) {
  return 2 * shot_s(n, S / n, model) + (n - 1) * S / n * model.gamma_s_per_byte;
}

double one_shot_s(int n, double S, const CostModel& model) {
  return shot_s(n, S, model) + n * S * model.gamma_s_per_byte;
}

double double_tree_s(int n, double S, const CostModel& model) {
  const int depth = static_cast<int>(std::bit_width(static_cast<unsigned>(n))) - 1;
  // The halves that an inner rank receives: from its children and its parent, and as a leaf of the
  // other tree.
  const double halves = n == 2 ? 2 : n <= 4 ? 3 : 4;
  double least = std::numeric_limits<double>::infinity();
  for (int k = 1; k <= kMostSegments; k *= 2) {
    const double half = S / 2 / k, hop = hop_s(n, (n == 2 ? 1 : 2) * half, model);
    const double port = (hop_s(n, halves * half, model) - hop_s(n, 0, model)) / kTreeEfficiency;
    least = std::min(least, 2 * depth * hop + (k - 1) * std::max(hop, port));
  }
  return least + S * model.gamma_s_per_byte;
}

using Seconds = double(int n, double S, const CostModel& model);

template <Seconds* between>
double hierarchical_s(int n, double S, const CostModel& model) {
  const int m = model.ranks_per_host;
  CostModel network = model;
  network.ranks_per_host = 1;
  return (m > 1 ? two_shot_s(m, S, model) : 0) + between(n / m, S / m, network);
}

enum class Needs { nothing, one_host, whole_hosts };

struct Formula {
  const char* algorithm;
  Seconds* seconds;
  Needs needs = Needs::nothing;

  bool fits(int n, int ranks_per_host) const {
    if (needs == Needs::one_host) return n <= ranks_per_host;
    if (needs == Needs::whole_hosts) return n > ranks_per_host && n % ranks_per_host == 0;
    return true;
  }
};
// algorithms.cc says which algorithms there are: a row here is a short way to the time of one of
// them, or of an algorithm that only NCCL runs, whose name begins with "nccl_".
constexpr Formula kFormulas[] = {
    {"ring", ring_s},
    {"halving_doubling", halving_doubling_s},
    {"two_shot", two_shot_s, Needs::one_host},
    {"one_shot", one_shot_s, Needs::one_host},
    {"nccl_double_tree", double_tree_s},
    {"hierarchical", hierarchical_s<ring_s>, Needs::whole_hosts},
    {"nccl_hierarchical_tree", hierarchical_s<double_tree_s>, Needs::whole_hosts},
};

// Null for an algorithm without one.
const Formula* formula_of(std::string_view algorithm) {
  for (const Formula& formula : kFormulas)
    if (formula.algorithm == algorithm) return &formula;
  return nullptr;
}

double simulated_s(std::string_view algorithm, int n, double bytes, const CostModel& model) {
  require(n <= kMostSimulated, "all_reduce_seconds: without a formula there must be at most ",
          kMostSimulated, " ranks; got ", n, " for \"", algorithm, '"');
  const CollectivePlan plan =
      make_plan(Collective::all_reduce, algorithm, n, {.ranks_per_host = model.ranks_per_host});
  return predicted_seconds(plan, std::llround(bytes), model);
}

void check(int world_size, double bytes, const CostModel& model) {
  if (world_size < 1 || !is_cost(bytes))
    throw std::invalid_argument(
        text_of("all_reduce_seconds: ranks must be positive and bytes not negative; got ",
                world_size, " and ", std::to_string(bytes)));
  for (const double figure :
       {model.within_host.alpha_s, model.within_host.beta_s_per_byte, model.between_hosts.alpha_s,
        model.between_hosts.beta_s_per_byte, model.gamma_s_per_byte})
    if (!is_cost(figure))
      throw std::invalid_argument(
          "all_reduce_seconds: alpha, beta and gamma must not be negative; got " +
          std::to_string(figure));
  require(model.ranks_per_host >= 1, "all_reduce_seconds: ranks per host must be positive; got ",
          model.ranks_per_host);
}

}  // namespace

std::vector<std::string> all_reduce_formulas() {
  std::vector<std::string> names;
  for (const Formula& formula : kFormulas) names.push_back(formula.algorithm);
  return names;
}

double all_reduce_seconds(std::string_view algorithm, int world_size, double bytes,
                          const CostModel& model) {
  check(world_size, bytes, model);
  const Formula* formula = formula_of(algorithm);
  if (!formula) return simulated_s(algorithm, world_size, bytes, model);
  if (world_size == 1) return 0;
  require(formula->fits(world_size, model.ranks_per_host), "all_reduce_seconds: ", algorithm,
          " needs ",
          formula->needs == Needs::one_host ? "ranks of one host" : "several whole hosts", "; got ",
          world_size, " ranks, ", model.ranks_per_host, " on a host");
  return formula->seconds(world_size, bytes, model);
}

AllReduceChoice fastest_all_reduce(int world_size, double bytes, const CostModel& model,
                                   std::span<const std::string> algorithms) {
  const std::vector<std::string> all = all_reduce_formulas();
  if (algorithms.empty()) algorithms = all;
  AllReduceChoice fastest;
  for (const std::string& algorithm : algorithms) {
    const Formula* formula = formula_of(algorithm);
    if (formula && !formula->fits(world_size, model.ranks_per_host)) continue;
    const double seconds = all_reduce_seconds(algorithm, world_size, bytes, model);
    if (fastest.algorithm.empty() || seconds < fastest.seconds) fastest = {algorithm, seconds};
  }
  require(!fastest.algorithm.empty(),
          "fastest_all_reduce: an algorithm must fit the ranks; got none for ", world_size,
          " ranks, ", model.ranks_per_host, " on a host");
  return fastest;
}

double bus_bandwidth(int world_size, double bytes, double seconds) {
  return seconds > 0 ? 2.0 * (world_size - 1) / world_size * bytes / seconds : 0;
}

}  // namespace ringrad
