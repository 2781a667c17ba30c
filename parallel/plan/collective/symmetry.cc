#include "ringrad/parallel/plan/collective/symmetry.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace ringrad {
namespace {

using Renaming = Symmetry::Renaming;

// A number with one added to the digit that counts for `weight`, modulo its base.
int next(int number, int base, int weight) {
  return number / weight % base + 1 < base ? number + weight : number - (base - 1) * weight;
}

// A digit of ranks' numbers. It is also one of the numbers of chunks, or else the lists show what
// becomes of chunks.
struct Digit {
  int base, weight;
  int weight_in_chunks = 0;
};
using Digits = std::vector<Digit>;

// The ways to write numbers in which algorithms are symmetric: rings and direct plans, halving and
// doubling, and hierarchical plans, which have a block of chunks for each place in a host.
std::vector<Digits> ways_to_write(int world_size) {
  std::vector<Digits> ways;
  if (world_size > 1) ways.push_back({{world_size, 1}});
  if (world_size > 2 && std::has_single_bit(static_cast<unsigned>(world_size))) {
    ways.emplace_back();
    for (int weight = 1; weight < world_size; weight *= 2)
      ways.back().push_back({2, weight, weight});
  }
  for (int places = 2; places < world_size; ++places) {
    const int hosts = world_size / places;
    if (world_size % places == 0) ways.push_back({{places, 1, hosts}, {hosts, places, 1}});
  }
  return ways;
}

std::vector<StepGroup> in_groups(const std::vector<Step>& steps) {
  std::vector<StepGroup> groups;
  for (const Step& step : steps) {
    const bool continues = !groups.empty() && groups.back().step == step.step &&
                           groups.back().op == step.op && groups.back().peers == step.peers &&
                           groups.back().chunks.back() < step.chunk;
    if (!continues) groups.push_back({step.step, step.op, {}, step.peers});
    groups.back().chunks.push_back(step.chunk);
  }
  return groups;
}

class Search {
 public:
  Search(const CollectivePlan& first, const PlanOfRank& plan_of)
      : first_(first),
        plan_of_(plan_of),
        is_term_(first.world_size, false),
        is_in_group_(first.num_chunks, false) {}

  std::optional<Symmetry> with(const Digits& digits) {
    std::vector<Renaming> of_digits;
    for (const Digit& digit : digits) {
      of_digits.push_back(renaming_of(digit));
      if (of_digits.back().chunks.empty()) return {};
    }
    compose(digits, of_digits);
    if (!is_group(digits, of_digits)) return {};
    found_.list = in_groups(first_.steps);
    found_.ascending.assign(found_.list.size(), true);
    for (int rank = first_.world_size - 1; rank >= 0; --rank)
      if (!is_renamed(plan_of_(rank), rank)) return {};
    return std::move(found_);
  }

 private:
  // What one more in a digit does. Without chunks if that is not to be seen.
  Renaming renaming_of(const Digit& digit) const {
    Renaming renaming;
    for (int rank = 0; rank < first_.world_size; ++rank)
      renaming.ranks.push_back(next(rank, digit.base, digit.weight));
    if (digit.weight_in_chunks == 0) {
      renaming.chunks = chunks_in(plan_of_(digit.weight));
    } else if (first_.num_chunks == first_.world_size) {
      for (int chunk = 0; chunk < first_.num_chunks; ++chunk)
        renaming.chunks.push_back(next(chunk, digit.base, digit.weight_in_chunks));
    }
    return renaming;
  }

  // The chunks in the places where rank 0 has chunk 0, 1, ...
  std::vector<int> chunks_in(const CollectivePlan& other) const {
    std::vector<int> chunks(first_.num_chunks, -1);
    if (other.steps.size() != first_.steps.size()) return {};
    for (std::size_t i = 0; i < other.steps.size(); ++i)
      chunks[first_.steps[i].chunk] = other.steps[i].chunk;
    const bool are_good = std::all_of(chunks.begin(), chunks.end(), [&](int chunk) {
      return chunk >= 0 && chunk < first_.num_chunks;
    });
    return are_good ? chunks : std::vector<int>();
  }

  static Renaming after(const Renaming& second, const Renaming& first) {
    Renaming both;
    for (int rank : first.ranks) both.ranks.push_back(second.ranks[rank]);
    for (int chunk : first.chunks) both.chunks.push_back(second.chunks[chunk]);
    return both;
  }

  void compose(const Digits& digits, const std::vector<Renaming>& of_digits) {
    found_.to.resize(first_.world_size);
    found_.to[0] = {first_integers(first_.world_size), first_integers(first_.num_chunks)};
    for (std::size_t d = 0; d < digits.size(); ++d)
      for (int rank = digits[d].weight; rank < digits[d].weight * digits[d].base; ++rank)
        found_.to[rank] = after(of_digits[d], found_.to[rank - digits[d].weight]);
  }

  // Each renaming is a product of the digits' ones. If one more in any digit leads from each to
  // that of the next rank, and from the last in the digit to the first, so does every product.
  bool is_group(const Digits& digits, const std::vector<Renaming>& of_digits) const {
    for (std::size_t d = 0; d < digits.size(); ++d)
      for (int rank = 0; rank < first_.world_size; ++rank) {
        const std::vector<int>& here = found_.to[rank].chunks;
        const std::vector<int>& there = found_.to[of_digits[d].ranks[rank]].chunks;
        for (int chunk = 0; chunk < first_.num_chunks; ++chunk)
          if (there[chunk] != of_digits[d].chunks[here[chunk]]) return false;
      }
    return true;
  }

  bool is_renamed(const CollectivePlan& plan, int rank) {
    if (plan.collective != first_.collective || plan.world_size != first_.world_size ||
        plan.num_chunks != first_.num_chunks || plan.root != first_.root ||
        plan.steps.size() != first_.steps.size())
      return false;
    const Renaming& renaming = found_.to[rank];
    const Step* step = plan.steps.data();
    for (std::size_t i = 0; i < found_.list.size(); ++i) {
      const StepGroup& group = found_.list[i];
      for (int chunk : group.chunks) is_in_group_[renaming.chunks[chunk]] = true;
      const Step* const end = step + group.chunks.size();
      for (int last_chunk = -1; step != end; last_chunk = (step++)->chunk) {
        if (step->rank != rank || step->step != group.step || step->op != group.op ||
            !are_renamed(step->peers, group.peers, renaming.ranks) || step->chunk <= last_chunk ||
            step->chunk >= first_.num_chunks || !std::exchange(is_in_group_[step->chunk], false))
          return false;
        if (!std::is_sorted(step->peers.begin(), step->peers.end())) found_.ascending[i] = false;
      }
    }
    return true;
  }

  // In whatever order. REQUIRES: `peers` are different ranks
  bool are_renamed(const FewInts& renamed, const FewInts& peers, const std::vector<int>& ranks) {
    if (renamed.size() != peers.size()) return false;
    if (peers.size() == 1) return renamed[0] == ranks[peers[0]];
    for (int peer : peers) is_term_[ranks[peer]] = true;
    return std::all_of(renamed.begin(), renamed.end(), [&](int peer) {
      return peer >= 0 && peer < first_.world_size && std::exchange(is_term_[peer], false);
    });
  }

  const CollectivePlan& first_;
  const PlanOfRank& plan_of_;
  // All false again after each comparison that succeeds.
  std::vector<char> is_term_;      // (world_size)
  std::vector<char> is_in_group_;  // (num_chunks)
  Symmetry found_;
};

}  // namespace

std::optional<Symmetry> find_symmetry(const CollectivePlan& first, const PlanOfRank& plan_of) {
  // Each rank has a renaming. A plan from a file may have any number of ranks.
  constexpr std::int64_t kMostNumbers = std::int64_t{1} << 26;  // 256 MiB
  const std::int64_t n = first.world_size;
  if (n * (n + first.num_chunks) > kMostNumbers) return {};
  for (const Digits& digits : ways_to_write(first.world_size))
    if (auto symmetry = Search(first, plan_of).with(digits)) return symmetry;
  return {};
}

}  // namespace ringrad
