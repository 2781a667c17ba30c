#include "ringrad/parallel/comm/network/hierarchical_group.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/blocks/block_communicator.h"
#include "ringrad/parallel/comm/common/hosts.h"
#include "ringrad/parallel/comm/common/own_process.h"
#include "ringrad/parallel/comm/common/unwinding.h"
#include "ringrad/parallel/comm/gather_values.h"
#include "ringrad/parallel/comm/network/failure_board.h"

namespace ringrad {
namespace {

// --- Which ranks are on one host ---

constexpr std::size_t kLongestName = 256;

// Processes of one name can share memory: containers may be on one machine and still see nothing of
// each other.
std::string name_of_machine() {
  std::string name = boot_id();
  for (const char* space : {"/proc/self/ns/net", "/proc/self/ns/pid"}) {
    std::error_code unknown;
    name += ' ' + std::filesystem::read_symlink(space, unknown).string();
  }
  return name;
}

// The ranks of each host; hosts are in the order of their first ranks.
std::vector<std::vector<int>> ranks_by_host(Communicator& network, const std::string& host,
                                            Where where) {
  RINGRAD_CHECK(host.size() < kLongestName, ValueError, where,
                "hierarchical group: the name of a host must have less than ", kLongestName,
                " characters; got ", host.size());
  std::array<char, kLongestName> own{};
  std::copy(host.begin(), host.end(), own.begin());
  const auto all = gather_values(network, own, where);
  std::vector<std::string> names;
  std::vector<std::vector<int>> hosts;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto host_number = static_cast<std::size_t>(
        std::find(names.begin(), names.end(), all[r].data()) - names.begin());
    if (host_number == names.size()) {
      names.emplace_back(all[r].data());
      hosts.emplace_back();
    }
    hosts[host_number].push_back(static_cast<int>(r));
  }
  return hosts;
}

HierarchicalOptions named(HierarchicalOptions options, RankNames rank_names) {
  options.rank_names = std::move(rank_names);
  return options;
}

// --- One rank ---

class HierarchicalCommunicator final : public BlockCommunicator {
 public:
  HierarchicalCommunicator(std::unique_ptr<Communicator> network, const Store& store,
                           const HierarchicalOptions& options, Where where)
      : BlockCommunicator(network->rank(), network->world_size(), network->group() + ".by_host",
                          network->rank_names()),
        options_(named(options, rank_names())),
        store_(store.another(options.join_timeout, where)),
        network_(std::move(network)),
        hosts_(ranks_by_host(*network_, options.host.empty() ? name_of_machine() : options.host,
                             where),
               rank()),
        local_(join_process_group(store_, concat(group(), "/host", hosts_.own.block),
                                  hosts_.own.local, hosts_.size_of(hosts_.own.block),
                                  named(options, rank_names().of(hosts_.ranks[hosts_.own.block])),
                                  where)),
        leaders_(network_->split(hosts_.own.local == 0 ? 0 : -1, 0, where)),
        board_(
            store_.another(options.join_timeout, where), group(), rank(), world_size(), options_,
            [this] { interrupt(); }, nullptr, where) {
    try {
      if (leaders_ && options.leaders) leaders_ = options.leaders(std::move(leaders_));
    } catch (...) {
      board_.fail(kEndedByException);
      throw;
    }
  }

  ~HierarchicalCommunicator() override {
    if (unwinding_ && in_own_process_) board_.fail(kEndedByException);
  }

  Tensor empty_shared(const Shape& shape, const Options& options, Where where) override {
    return local_->empty_shared(shape, options, where);
  }
  bool serves_all_threads() const override { return network_->serves_all_threads(); }
  int failed_rank() const noexcept override { return board_.failed_rank(); }

 protected:
  void do_abort(const std::string& reason) noexcept override {
    board_.fail(reason);
    interrupt();
  }
  BlockCollectives by_block() const override {
    return {hosts_, *local_, leaders_.get(), SumOrder::canonical};
  }
  void perform(const CollectiveCall& call, Where where, const std::function<void()>& body) override;
  void refuse(const Operation& operation, int culprit, const std::string& reason) override {
    board_.fail_and_throw(operation, culprit, concat(operation, ": ", reason));
  }
  void do_collective(const CollectiveCall& call, const Tensor& output, const Tensor& input,
                     Where where) override;
  void do_send(const Tensor& tensor, int to, Where where) override;
  void do_recv(const Tensor& tensor, int from, Where where) override;
  std::unique_ptr<Communicator> do_split(const std::vector<int>& ranks, const std::string& name,
                                         Where where) override;
  std::unique_ptr<Communicator> do_shrink(Where where) override;

 private:
  bool reaches(const Device&) const override { return true; }
  void interrupt() noexcept {
    for (Communicator* const part : {local_.get(), leaders_.get(), network_.get()})
      if (part) part->abort("another part of the group has ended");
  }

  template <class Body>
  void guarded(const Operation& operation, bool is_collective, Body body);

  const HierarchicalOptions options_;
  Store store_;
  const std::unique_ptr<Communicator> network_;
  const RankBlocks hosts_;
  const std::unique_ptr<Communicator> local_;
  std::unique_ptr<Communicator> leaders_;  // null unless this rank leads its host
  std::uint64_t num_collectives_ = 0, num_messages_ = 0;
  const Unwinding unwinding_;
  const OwnProcess in_own_process_;
  FailureBoard board_;  // ends before what it interrupts
};

// --- One call ---

template <class Body>
void HierarchicalCommunicator::guarded(const Operation& operation, bool is_collective, Body body) {
  board_.begin_call(is_collective, &operation);
  try {
    board_.check_whole(operation);
    body();
  } catch (const CollectiveError& error) {
    board_.investigate(operation, std::string(error.message()));
  } catch (...) {
    board_.end_call();
    throw;
  }
  board_.end_call();
}

void HierarchicalCommunicator::perform(const CollectiveCall& call, Where where,
                                       const std::function<void()>& body) {
  const Operation operation{call, rank(), ++num_collectives_, where, {}, &rank_names()};
  guarded(operation, true, [&] {
    compare(operation);
    body();
  });
}

// An all_to_all goes over the network alone: two levels would cost as much as gathering all inputs.
void HierarchicalCommunicator::do_collective(const CollectiveCall& call, const Tensor& output,
                                             const Tensor& input, Where where) {
  if (call.op != CollectiveOp::all_to_all)
    return BlockCommunicator::do_collective(call, output, input, where);
  perform(call, where, [&] { network_->run(call, output, input, where); });
}

// --- Messages ---

void HierarchicalCommunicator::do_send(const Tensor& tensor, int to, Where where) {
  const CollectiveCall call = call_of(CollectiveOp::send, tensor, ReduceOp::sum, to);
  guarded({call, rank(), ++num_messages_, where, {}, &rank_names()}, false,
          [&] { network_->send(tensor, to, where); });
}

void HierarchicalCommunicator::do_recv(const Tensor& tensor, int from, Where where) {
  const CollectiveCall call = call_of(CollectiveOp::recv, tensor, ReduceOp::sum, from);
  guarded({call, rank(), ++num_messages_, where, {}, &rank_names()}, false,
          [&] { network_->recv(tensor, from, where); });
}

// --- Other groups of the same ranks ---

std::unique_ptr<Communicator> HierarchicalCommunicator::do_split(const std::vector<int>& ranks,
                                                                 const std::string& /*name*/,
                                                                 Where where) {
  const auto own = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
  std::unique_ptr<Communicator> part;
  guarded({{}, rank(), num_collectives_, where, {}, &rank_names()}, false, [&] {
    part = network_->split(ranks.empty() ? -1 : ranks[0], static_cast<int>(own), where);
  });
  return part ? make_hierarchical_group(std::move(part), store_, options_, where) : nullptr;
}

std::unique_ptr<Communicator> HierarchicalCommunicator::do_shrink(Where where) {
  interrupt();
  return make_hierarchical_group(network_->shrink(where), store_, options_, where);
}

}  // namespace

std::unique_ptr<Communicator> make_hierarchical_group(std::unique_ptr<Communicator> network,
                                                      const Store& store,
                                                      const HierarchicalOptions& options,
                                                      Where where) {
  return std::make_unique<HierarchicalCommunicator>(std::move(network), store, options, where);
}

}  // namespace ringrad
