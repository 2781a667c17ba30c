#include "parallel/comm/hierarchical_group.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "core/view.h"
#include "kernels/copy.h"
#include "kernels/elementwise.h"
#include "parallel/comm/collective_call.h"
#include "parallel/comm/failure_board.h"

namespace ringrad {
namespace {

// --- Which ranks are on one host -----------------------------------------------------------------------------

constexpr std::size_t kLongestName = 256;

// Processes of one name can share memory: containers may be on one machine and still see nothing of each other.
std::string name_of_machine() {
  std::string name;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> name;
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
  const Options bytes{.dtype = DType::uint8, .device = Device()};
  const auto n = static_cast<std::size_t>(network.world_size());
  const Tensor own = zeros({kLongestName}, bytes, where),
               all = empty({network.world_size(), kLongestName}, bytes, where);
  std::memcpy(own.raw_data(), host.data(), host.size());
  network.all_gather(all, own, where);
  std::vector<std::string> names;
  std::vector<std::vector<int>> hosts;
  for (std::size_t r = 0; r < n; ++r) {
    const std::string name = reinterpret_cast<const char*>(all.raw_data()) + r * kLongestName;
    const auto host_number =
        static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (host_number == names.size()) {
      names.push_back(name);
      hosts.emplace_back();
    }
    hosts[host_number].push_back(static_cast<int>(r));
  }
  return hosts;
}

// --- One rank ------------------------------------------------------------------------------------------------

class HierarchicalCommunicator final : public Communicator {
 public:
  HierarchicalCommunicator(std::unique_ptr<Communicator> network, const Store& store,
                           const HierarchicalOptions& options, Where where)
      : Communicator(network->rank(), network->world_size(), network->group() + ".by_host"),
        options_(options),
        store_(store.another(options.join_timeout, where)),
        network_(std::move(network)),
        hosts_(ranks_by_host(*network_, options.host.empty() ? name_of_machine() : options.host,
                             where)),
        places_(places_in(hosts_, world_size())),
        own_(places_[static_cast<std::size_t>(rank())]),
        local_(join_process_group(store_, concat(group(), "/host", own_.host), own_.local,
                                  static_cast<int>(hosts_[own_.host].size()), options, where)),
        leaders_(network_->split(own_.local == 0 ? 0 : -1, 0, where)),
        board_(
            store_, group(), rank(), world_size(), options.deadline, [this] { interrupt(); },
            where) {
    try {
      if (leaders_ && options.leaders) leaders_ = options.leaders(std::move(leaders_));
    } catch (...) {
      board_.fail("an exception ended its work");
      throw;
    }
  }

  ~HierarchicalCommunicator() override {
    if (std::uncaught_exceptions() > exceptions_before_) board_.fail("an exception ended its work");
  }

  Tensor empty_shared(const Shape& shape, const Options& options, Where where) override {
    return local_->empty_shared(shape, options, where);
  }
  void abort(const std::string& reason) noexcept override {
    board_.fail(reason);
    interrupt();
  }
  int failed_rank() const noexcept override {
    return board_.broken() ? board_.failure().culprit : -1;
  }

 protected:
  void do_all_reduce(const Tensor& tensor, ReduceOp op, Where where) override;
  void do_reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op,
                         Where where) override;
  void do_all_gather(const Tensor& output, const Tensor& input, Where where) override;
  void do_broadcast(const Tensor& tensor, int root, Where where) override;
  void do_reduce(const Tensor& tensor, int root, ReduceOp op, Where where) override;
  void do_all_to_all(const Tensor& output, const Tensor& input, Where where) override;
  void do_meet(const CollectiveCall& call, Where where) override;
  void do_send(const Tensor& tensor, int to, Where where) override;
  void do_recv(const Tensor& tensor, int from, Where where) override;
  std::unique_ptr<Communicator> do_split(const std::vector<int>& ranks, const std::string& name,
                                         Where where) override;
  std::unique_ptr<Communicator> do_shrink(Where where) override;

 private:
  // Where a rank is: on which host, and the how many-th there.
  struct Place {
    std::size_t host = 0;
    int local = 0;
  };

  static std::vector<Place> places_in(const std::vector<std::vector<int>>& hosts, int world_size) {
    std::vector<Place> places(static_cast<std::size_t>(world_size));
    for (std::size_t host = 0; host < hosts.size(); ++host)
      for (std::size_t local = 0; local < hosts[host].size(); ++local)
        places[static_cast<std::size_t>(hosts[host][local])] = {host, static_cast<int>(local)};
    return places;
  }

  bool reaches(const Device&) const override { return true; }
  const Place& place_of(int rank) const { return places_[static_cast<std::size_t>(rank)]; }
  bool leads() const { return own_.local == 0; }

  void interrupt() noexcept {
    for (Communicator* const part : {local_.get(), leaders_.get(), network_.get()})
      if (part) part->abort("another part of the group has ended");
  }

  template <class Body>
  void perform(const Operation& operation, bool is_collective, Body body);
  template <class Body>
  void perform_collective(const CollectiveCall& call, Where where, Body body);
  void compare(const Operation& operation);

  void gather(const Tensor& output, const Tensor& input, Where where);
  void reduce_everywhere(const Tensor& tensor, ReduceOp op, Where where);
  template <class Body>
  void with_carrier(const Tensor& tensor, ReduceOp op, Where where, Body body);

  const HierarchicalOptions options_;
  Store store_;
  const std::unique_ptr<Communicator> network_;
  const std::vector<std::vector<int>> hosts_;
  const std::vector<Place> places_;  // (world_size)
  const Place own_;
  const std::unique_ptr<Communicator> local_;
  std::unique_ptr<Communicator> leaders_;  // null unless this rank leads its host
  std::uint64_t num_collectives_ = 0, num_messages_ = 0;
  const int exceptions_before_ = std::uncaught_exceptions();
  FailureBoard board_;  // ends before what it interrupts
};

// --- One call --------------------------------------------------------------------------------------------------

template <class Body>
void HierarchicalCommunicator::perform(const Operation& operation, bool is_collective, Body body) {
  board_.begin_call(is_collective);
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

template <class Body>
void HierarchicalCommunicator::perform_collective(const CollectiveCall& call, Where where,
                                                  Body body) {
  const Operation operation{call, rank(), ++num_collectives_, where, {}};
  perform(operation, true, [&] {
    compare(operation);
    body();
  });
}

// All ranks must have made the same call before data move.
void HierarchicalCommunicator::compare(const Operation& operation) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(CollectiveCall));
  const Options bytes{.dtype = DType::uint8, .device = Device()};
  const Tensor own = empty({kBytes}, bytes, operation.where),
               all = empty({world_size(), kBytes}, bytes, operation.where);
  std::memcpy(own.raw_data(), &operation.call, sizeof(CollectiveCall));
  gather(all, own, operation.where);
  std::vector<CollectiveCall> calls(static_cast<std::size_t>(world_size()));
  std::memcpy(calls.data(), all.raw_data(), calls.size() * sizeof(CollectiveCall));
  if (std::all_of(calls.begin(), calls.end(), [&](auto& c) { return c == operation.call; })) return;
  board_.fail_and_throw(
      operation, concat(operation, ": all ranks must make the same call; got ", list_calls(calls)));
}

// --- Collectives -------------------------------------------------------------------------------------------------

// Hosts send blocks of one size, so that one call is enough; those of hosts with fewer ranks end in nothing.
void HierarchicalCommunicator::gather(const Tensor& output, const Tensor& input, Where where) {
  const Options like{.dtype = output.dtype(), .device = output.device()};
  const std::int64_t part = input.numel();
  const auto num_hosts = static_cast<std::int64_t>(hosts_.size());
  const auto size_of = [](const auto& host) { return static_cast<std::int64_t>(host.size()); };
  std::int64_t most = 0;
  for (const auto& host : hosts_) most = std::max(most, size_of(host));
  const Tensor block = empty({most, part}, like, where);
  local_->all_gather(view::slice(block, 0, 0, size_of(hosts_[own_.host])), input, where);
  const Tensor rows = view::reshape(output, {world_size(), part});
  if (leads()) {
    const Tensor blocks = empty({num_hosts, most, part}, like, where);
    leaders_->all_gather(blocks, block, where);
    for (int r = 0; r < world_size(); ++r) {
      const auto& [host, local] = place_of(r);
      kernels::copy_(
          view::select(rows, 0, r),
          view::select(view::select(blocks, 0, static_cast<std::int64_t>(host)), 0, local), where);
    }
  }
  local_->broadcast(output, 0, where);
}

// body(x, op) reduces x in place, which carries what the tensor holds; a mean is a sum that is divided at the end.
template <class Body>
void HierarchicalCommunicator::with_carrier(const Tensor& tensor, ReduceOp op, Where where,
                                            Body body) {
  const bool rounds = op != ReduceOp::min && op != ReduceOp::max;
  const bool is_narrow = tensor.dtype() == DType::float16 || tensor.dtype() == DType::bfloat16;
  const Tensor x = rounds && is_narrow ? kernels::cast(tensor, DType::float32, where) : tensor;
  body(x, op == ReduceOp::mean ? ReduceOp::sum : op);
  if (op == ReduceOp::mean)
    kernels::binary<ops::Div>(
        x, full({}, world_size(), {.dtype = x.dtype(), .device = x.device()}, where), x, where);
  if (rounds && is_narrow) kernels::copy_(tensor, x, where);
}

void HierarchicalCommunicator::reduce_everywhere(const Tensor& tensor, ReduceOp op, Where where) {
  with_carrier(tensor, op, where, [&](const Tensor& x, ReduceOp sum) {
    local_->reduce(x, 0, sum, where);
    if (leads()) leaders_->all_reduce(x, sum, where);
    local_->broadcast(x, 0, where);
  });
}

void HierarchicalCommunicator::do_all_reduce(const Tensor& tensor, ReduceOp op, Where where) {
  perform_collective(call_of(CollectiveOp::all_reduce, tensor, op), where,
                     [&] { reduce_everywhere(tensor, op, where); });
}

void HierarchicalCommunicator::do_reduce_scatter(const Tensor& output, const Tensor& input,
                                                 ReduceOp op, Where where) {
  perform_collective(call_of(CollectiveOp::reduce_scatter, input, op), where, [&] {
    const Tensor all = kernels::clone(input, where);
    reduce_everywhere(all, op, where);
    const Tensor parts = view::reshape(all, {world_size(), output.numel()});
    kernels::copy_(output, view::reshape(view::select(parts, 0, rank()), output.shape()), where);
  });
}

void HierarchicalCommunicator::do_all_gather(const Tensor& output, const Tensor& input,
                                             Where where) {
  perform_collective(call_of(CollectiveOp::all_gather, output), where,
                     [&] { gather(output, input, where); });
}

void HierarchicalCommunicator::do_broadcast(const Tensor& tensor, int root, Where where) {
  perform_collective(call_of(CollectiveOp::broadcast, tensor, ReduceOp::sum, root), where, [&] {
    const auto& [host, local] = place_of(root);
    if (own_.host == host) local_->broadcast(tensor, local, where);
    if (leads()) leaders_->broadcast(tensor, static_cast<int>(host), where);
    if (own_.host != host) local_->broadcast(tensor, 0, where);
  });
}

void HierarchicalCommunicator::do_reduce(const Tensor& tensor, int root, ReduceOp op, Where where) {
  perform_collective(call_of(CollectiveOp::reduce, tensor, op, root), where, [&] {
    const auto& [host, local] = place_of(root);
    with_carrier(tensor, op, where, [&](const Tensor& x, ReduceOp sum) {
      local_->reduce(x, 0, sum, where);
      if (leads()) leaders_->reduce(x, static_cast<int>(host), sum, where);
      if (own_.host == host && local != 0) local_->broadcast(x, 0, where);
    });
  });
}

// To compare the calls is all there is to it.
void HierarchicalCommunicator::do_meet(const CollectiveCall& call, Where where) {
  perform_collective(call, where, [] {});
}

void HierarchicalCommunicator::do_all_to_all(const Tensor& output, const Tensor& input,
                                             Where where) {
  perform_collective(call_of(CollectiveOp::all_to_all, input), where,
                     [&] { network_->all_to_all(output, input, where); });
}

// --- Messages ------------------------------------------------------------------------------------------------------

void HierarchicalCommunicator::do_send(const Tensor& tensor, int to, Where where) {
  const CollectiveCall call = call_of(CollectiveOp::send, tensor, ReduceOp::sum, to);
  perform({call, rank(), ++num_messages_, where, {}}, false,
          [&] { network_->send(tensor, to, where); });
}

void HierarchicalCommunicator::do_recv(const Tensor& tensor, int from, Where where) {
  const CollectiveCall call = call_of(CollectiveOp::recv, tensor, ReduceOp::sum, from);
  perform({call, rank(), ++num_messages_, where, {}}, false,
          [&] { network_->recv(tensor, from, where); });
}

// --- Other groups of the same ranks ----------------------------------------------------------------------------------

std::unique_ptr<Communicator> HierarchicalCommunicator::do_split(const std::vector<int>& ranks,
                                                                 const std::string& /*name*/,
                                                                 Where where) {
  const auto own = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
  std::unique_ptr<Communicator> part;
  perform({{}, rank(), num_collectives_, where, {}}, false, [&] {
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
