#include "ringrad/parallel/plan/collective/symmetric_proof.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace ringrad {
namespace {

constexpr int kNothing = -1, kContribution = 0, kSumInOrder = 1;  // other sums follow

struct RankedValue {
  int sum = kNothing;  // index into SymmetricProof::sums_
  int rank = 0;        // whose contribution, or which rank made the sum

  bool operator==(const RankedValue&) const = default;
};

class SymmetricProof {
 public:
  SymmetricProof(const CollectivePlan& first, const Symmetry& symmetry, int slots)
      : plan_(first),
        symmetry_(symmetry),
        slots_(slots),
        back_(first.world_size),
        met_(symmetry.list.size()),
        taken_at_(symmetry.list.size(), -1) {
    for (int rank = 0; rank < first.world_size; ++rank)
      for (int to = 0; to < first.world_size; ++to)
        if (ranks(rank)[to] == 0) back_[rank] = to;
  }

  bool run() {
    return promises_are_symmetric() && finishes_and_matches() && keeps_lent_chunks() && adds() &&
           keeps_promise();
  }

 private:
  const std::vector<int>& ranks(int rank) const { return symmetry_.to[rank].ranks; }
  const std::vector<int>& chunks(int rank) const { return symmetry_.to[rank].chunks; }
  const StepGroup& group(int i) const { return symmetry_.list[i]; }
  int num_groups() const { return static_cast<int>(symmetry_.list.size()); }

  // Owners are renamed with their chunks.
  bool promises_are_symmetric() const {
    if (plan_.collective == Collective::all_reduce) return true;
    if (plan_.collective != Collective::reduce_scatter &&
        plan_.collective != Collective::all_gather)
      return false;
    for (int rank = 0; rank < plan_.world_size; ++rank)
      for (int chunk = 0; chunk < plan_.num_chunks; ++chunk)
        if (owner(plan_, chunks(rank)[chunk]) != ranks(rank)[owner(plan_, chunk)]) return false;
    return true;
  }

  // --- progress and matching ---

  // Sends that were not taken yet, by the number of their message.
  struct Channel {
    std::deque<std::pair<int, int>> sends;
    int num_messages = 0;
    int last_message = 0;
  };

  bool finishes_and_matches() {
    std::vector<Channel> channels(plan_.world_size);  // from rank 0
    for (int i = 0; i < num_groups(); ++i) {
      if (is_send(group(i).op) && !send(channels[group(i).peers[0]], i)) return false;
      if (!is_receive(group(i).op)) continue;
      for (int peer : group(i).peers) {
        met_[i].push_back(peer == 0 ? -1 : take(channels[back_[peer]], i));
        if (peer != 0 && (met_[i].back() < 0 || !match(peer, met_[i].back(), i))) return false;
      }
    }
    return std::all_of(channels.begin(), channels.end(),
                       [](const Channel& channel) { return channel.sends.empty(); });
  }

  bool match(int peer, int send, int receive) const {
    std::vector<int> sent;
    for (int chunk : group(send).chunks) sent.push_back(chunks(peer)[chunk]);
    std::sort(sent.begin(), sent.end());
    return sent == group(receive).chunks && group(send).step <= group(receive).step;
  }

  bool send(Channel& channel, int i) {
    const bool continues = i > 0 && is_send(group(i - 1).op) &&
                           group(i - 1).step == group(i).step &&
                           group(i - 1).peers == group(i).peers;
    if (!continues) {
      if (channel.num_messages >= slots_) return false;
      ++channel.last_message;
    }
    if (channel.sends.empty() || channel.sends.back().second != channel.last_message)
      ++channel.num_messages;
    channel.sends.emplace_back(i, channel.last_message);
    return true;
  }

  // Returns the send that step i takes; -1 for none.
  int take(Channel& channel, int i) {
    if (channel.sends.empty()) return -1;
    const auto [send, message] = channel.sends.front();
    channel.sends.pop_front();
    if (channel.sends.empty() || channel.sends.front().second != message) --channel.num_messages;
    taken_at_[send] = i;
    return send;
  }

  // --- zero-copy reads ---

  using Clock = std::vector<int>;  // (world_size) how many steps of each rank have certainly run

  bool keeps_lent_chunks() const {
    auto known = std::make_shared<Clock>(plan_.world_size, 0);
    std::vector<std::shared_ptr<const Clock>> sent(symmetry_.list.size());
    std::vector<std::vector<int>> of_chunk(plan_.num_chunks), of_copy(plan_.num_chunks);
    for (int i = 0; i < num_groups(); ++i) {
      const auto& [slot, op, chunks, peers] = group(i);
      const bool is_copy = op == StepOp::stage || op == StepOp::send_staged;
      std::vector<std::vector<int>>& lent = is_copy ? of_copy : of_chunk;  // since the last write
      if (is_send(op)) {
        sent[i] = known;
        for (int chunk : chunks) lent[chunk].push_back(i);
        continue;
      }
      if (is_receive(op)) {
        if (known.use_count() > 1) known = std::make_shared<Clock>(*known);
        for (std::size_t t = 0; t < peers.size(); ++t)
          if (const int send = met_[i][t]; send >= 0)
            learn(*known, peers[t], send, *std::exchange(sent[send], nullptr));
      }
      for (int chunk : chunks) {
        for (int send : lent[chunk])
          if (taken_at_[send] >= (*known)[group(send).peers[0]]) return false;
        lent[chunk].clear();
      }
    }
    return true;
  }

  // What `peer` knew when it sent, and that it sent.
  void learn(Clock& known, int peer, int send, const Clock& news) const {
    const std::vector<int>& renamed = ranks(peer);
    for (int rank = 0; rank < plan_.world_size; ++rank)
      known[renamed[rank]] = std::max(known[renamed[rank]], news[rank]);
    known[peer] = std::max(known[peer], send + 1);
  }

  // --- sums ---

  RankedValue renamed(RankedValue value, int rank) const {
    if (value.sum != kNothing && value.sum != kSumInOrder) value.rank = ranks(rank)[value.rank];
    return value;
  }

  bool adds() {
    sums_ = {{0}, first_integers(plan_.world_size)};
    held_.assign(plan_.num_chunks, {kContribution, 0});
    if (plan_.collective == Collective::all_gather)
      for (int chunk = 0; chunk < plan_.num_chunks; ++chunk)
        if (owner(plan_, chunk) != 0) held_[chunk] = {};
    staged_.assign(plan_.num_chunks, {});
    for (int i = 0; i < num_groups(); ++i)
      for (int chunk : group(i).chunks) {
        const StepOp op = group(i).op;
        if (is_receive(op)) held_[chunk] = received(i, chunk);
        const RankedValue result = (op == StepOp::send_staged ? staged_ : held_)[chunk];
        if (result.sum == kNothing) return false;
        if (op == StepOp::stage) staged_[chunk] = result;
      }
    return true;
  }

  // Lent chunks are not written, so a sender still holds what it has sent.
  RankedValue received(int i, int chunk) {
    const FewInts& peers = group(i).peers;
    std::vector<RankedValue> terms;
    for (std::size_t t = 0; t < peers.size(); ++t) {
      const int send = met_[i][t];
      const bool is_copy = send >= 0 && group(send).op == StepOp::send_staged;
      const int in_list_of_0 = chunks(back_[peers[t]])[chunk];
      terms.push_back(renamed((is_copy ? staged_ : held_)[in_list_of_0], peers[t]));
    }
    return terms.size() == 1 ? terms[0] : sum_of(terms, peers, symmetry_.ascending[i]);
  }

  // Nothing if a term has no value, or a contribution occurs twice. If every rank adds the peers'
  // own contributions to it, all of them and in ascending order, then all make the same sum.
  RankedValue sum_of(const std::vector<RankedValue>& terms, const FewInts& peers, bool ascending) {
    std::vector<int> contributions;
    std::vector<bool> is_in(plan_.world_size, false);
    for (std::size_t t = 0; t < terms.size(); ++t) {
      if (terms[t].sum == kNothing) return {};
      ascending = ascending && terms[t] == RankedValue{kContribution, peers[t]};
      for (int rank : sums_[terms[t].sum]) {
        contributions.push_back(ranks(terms[t].rank)[rank]);
        if (is_in[contributions.back()]) return {};
        is_in[contributions.back()] = true;
      }
    }
    if (ascending && is_complete(contributions)) return {kSumInOrder, 0};
    sums_.push_back(std::move(contributions));
    return {static_cast<int>(sums_.size()) - 1, 0};
  }

  bool is_complete(const std::vector<int>& contributions) const {
    return static_cast<int>(contributions.size()) == plan_.world_size;
  }

  // --- result ---

  bool keeps_promise() const {
    for (int chunk = 0; chunk < plan_.num_chunks; ++chunk) {
      const RankedValue held = held_[chunk];
      switch (plan_.collective) {
        case Collective::all_reduce:
          if (!is_complete(sums_[held.sum])) return false;
          // Any other rank holds there what rank 0 holds, renamed, in the chunk that is renamed so.
          for (int rank = 0; rank < plan_.world_size; ++rank)
            if (held_[chunks(rank)[chunk]] != renamed(held, rank)) return false;
          break;
        case Collective::reduce_scatter:
          if (owner(plan_, chunk) == 0 && !is_complete(sums_[held.sum])) return false;
          break;
        default:
          if (held != RankedValue{kContribution, owner(plan_, chunk)}) return false;
      }
    }
    return true;
  }

  const CollectivePlan& plan_;  // the header
  const Symmetry& symmetry_;
  const int slots_;
  std::vector<int> back_;              // (world_size) the rank that each one's renaming takes to 0
  std::vector<std::vector<int>> met_;  // (list) a receive's: the send of each term, -1 for rank 0's
  std::vector<int> taken_at_;          // (list) a send's: where the receiver takes it
  std::vector<std::vector<int>> sums_;      // the contributions in each, as the rank 0 makes it
  std::vector<RankedValue> held_, staged_;  // (num_chunks) by rank 0
};

}  // namespace

bool is_proved_by_symmetry(const CollectivePlan& first, const PlanOfRank& plan_of, int slots) {
  const auto symmetry = find_symmetry(first, plan_of);
  return symmetry && SymmetricProof(first, *symmetry, slots).run();
}

}  // namespace ringrad
