#include "ringrad/parallel/comm/network/gloo_group.h"

#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/common/no_broken_pipe.h"
#include "ringrad/parallel/comm/job/job_store.h"
#include "ringrad/parallel/comm/network/gloo_context.h"

namespace ringrad {
namespace {

using Network = std::shared_ptr<gloo::transport::Device>;
using Context = std::shared_ptr<GlooContext>;

// Each channel's messages to a rank have numbers of their own, from here.
constexpr std::uint64_t kFirstSlots[] = {std::uint64_t{1} << 48, std::uint64_t{2} << 48};

// While it connects, Gloo waits five times as long as its timeout says.
constexpr int kConnectingShare = 5;

// Our store, where Gloo's ranks leave their addresses.
class Meeting final : public gloo::rendezvous::Store {
 public:
  Meeting(ringrad::Store& store, std::string name, Where where)
      : store_(store), name_(std::move(name)), where_(where) {}

  void set(const std::string& key, const std::vector<char>& value) override {
    store_.set(place(key), {value.begin(), value.end()}, where_);
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = store_.get(place(key), where_);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }

 private:
  std::string place(const std::string& key) const { return concat(name_, "/gloo/", key); }

  ringrad::Store& store_;
  const std::string name_;
  const Where where_;
};

// True if this machine has the address. Gloo would crash if no interface had it.
bool is_own_address(const std::string& host) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), nullptr, &wanted, &found) != 0) return false;
  bool is_own = false;
  for (const addrinfo* at = found; at != nullptr && !is_own; at = at->ai_next) {
    const Descriptor probe(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    is_own = probe.is_open() && bind(probe.number(), at->ai_addr, at->ai_addrlen) == 0;
  }
  freeaddrinfo(found);
  return is_own;
}

Network make_network(const std::string& interface, Where where) {
  gloo::transport::tcp::attr attributes;
  const bool is_name = if_nametoindex(interface.c_str()) > 0;
  (is_name ? attributes.iface : attributes.hostname) = interface.empty() ? "127.0.0.1" : interface;
  std::string got = concat('"', interface, '"');
  try {
    if (is_name || is_own_address(attributes.hostname)) {
      const NoBrokenPipe guard;  // for the thread that it starts
      return gloo::transport::tcp::CreateDevice(attributes);
    }
  } catch (const std::exception& error) {
    got += concat(": ", error.what());
  }
  throw ValueError(
      concat("gloo group: the interface must be one of this machine, or an address of it; got ",
             got),
      where);
}

// Every exception of Gloo derives from this; otherwise only allocations throw there.
template <class Body>
auto guarded(Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw TransportError(error.what());
  }
}

// --- The transport ---

class GlooTransfer final : public Transfer {
 public:
  GlooTransfer(Context context, GlooContext::Message message)
      : context_(std::move(context)), message_(std::move(message)) {}
  void wait(TransportCall& call) override {
    if (!std::exchange(is_done_, true))
      guarded([&] { context_->wait(message_, call.time_left()); });
  }

 private:
  const Context context_;
  GlooContext::Message message_;
  bool is_done_ = false;
};

class GlooTransport final : public Transport {
 public:
  GlooTransport(Store& store, const std::string& name, int rank, int world_size, Network network,
                std::chrono::milliseconds timeout, Where where)
      : network_(std::move(network)),
        timeout_(timeout),
        next_slots_(static_cast<std::size_t>(world_size)),
        context_(std::make_shared<GlooContext>(rank, world_size)) {
    context_->setTimeout(std::max(timeout / kConnectingShare, std::chrono::milliseconds(1)));
    const NoBrokenPipe guard;
    const auto deadline = TransportCall::Clock::now() + timeout;
    try {
      connect_full_mesh(*context_, std::make_shared<Meeting>(store, name, where), network_);
      context_->begin_lookout();
      meet(deadline);
    } catch (const CollectiveError&) {
      throw;
    } catch (const std::exception& error) {
      throw CollectiveError(
          concat("gloo group: the ranks of ", name, " must reach each other within ",
                 std::chrono::duration<double>(timeout).count(), " s; got ", error.what()),
          where);
    }
  }

  std::unique_ptr<Transfer> send(const std::byte* data, std::size_t bytes, int to, Channel channel,
                                 std::vector<Tensor> /*memory*/) override {
    const std::uint64_t slot = next_slots_[static_cast<std::size_t>(to)].to[index(channel)]++;
    return guarded([&] {
      return std::make_unique<GlooTransfer>(context_, context_->send(data, bytes, to, slot));
    });
  }

  std::unique_ptr<Transfer> recv(std::byte* data, std::size_t bytes, int from, Channel channel,
                                 std::vector<Tensor> /*memory*/) override {
    const std::uint64_t slot = next_slots_[static_cast<std::size_t>(from)].from[index(channel)]++;
    return guarded([&] {
      return std::make_unique<GlooTransfer>(context_, context_->recv(data, bytes, from, slot));
    });
  }

  // A wait that times out breaks all connections of its context. That ends most other waits, and
  // end_lost_waits() the rest.
  void interrupt() noexcept override {
    try {
      std::byte nothing{};
      context_->createUnboundBuffer(&nothing, 1)->waitRecv(std::chrono::milliseconds(1));
    } catch (const std::exception&) {
    }
    context_->end_lost_waits();
  }
  void end_lost_waits() noexcept override { context_->end_lost_waits(); }

  std::unique_ptr<Transport> split(Store& store, const std::vector<int>& ranks, int own,
                                   const std::string& name, Where where) override {
    return std::make_unique<GlooTransport>(store, name, own, static_cast<int>(ranks.size()),
                                           network_, timeout_, where);
  }
  bool outlives_ranks() const override { return true; }

 private:
  // The numbers of the next messages to and from a rank, by channel.
  struct Slots {
    std::uint64_t to[2] = {kFirstSlots[0], kFirstSlots[1]};
    std::uint64_t from[2] = {kFirstSlots[0], kFirstSlots[1]};
  };
  static int index(Channel channel) { return static_cast<int>(channel); }

  // Each rank hears from every other. Without it, a rank that ends early would break connections
  // that a slower rank still makes, or end what the lookouts have sent unread, which resets a
  // connection.
  void meet(TransportCall::Clock::time_point deadline) {
    const std::atomic<bool> is_broken = false;
    TransportCall call(deadline, is_broken, {});
    std::byte own{};
    std::vector<std::byte> others(static_cast<std::size_t>(context_->size));
    std::vector<std::unique_ptr<Transfer>> transfers;
    for (int peer = 0; peer < context_->size; ++peer) {
      if (peer == context_->rank) continue;
      transfers.push_back(
          recv(&others[static_cast<std::size_t>(peer)], 1, peer, Channel::collectives, {}));
      transfers.push_back(send(&own, 1, peer, Channel::collectives, {}));
    }
    for (const auto& transfer : transfers) transfer->wait(call);
  }

  Network network_;
  const std::chrono::milliseconds timeout_;  // of connecting
  std::vector<Slots> next_slots_;            // (world_size)
  const Context context_;
};

}  // namespace

std::unique_ptr<Communicator> join_gloo_group(Store& store, const std::string& name, int rank,
                                              int world_size, const TransportOptions& options,
                                              Where where) {
  const TransportOptions complete = with_interface(options);
  Network network = make_network(complete.interface, where);
  meet(store, name, rank, world_size, complete, where);
  std::unique_ptr<Transport> transport;
  if (world_size > 1)
    transport = std::make_unique<GlooTransport>(store, name, rank, world_size, std::move(network),
                                                complete.join_timeout, where);
  auto comm = make_transport_communicator(store, name, rank, world_size, std::move(transport),
                                          complete, where);
  comm->barrier(where);  // no rank goes on before all have found each other
  return comm;
}

std::unique_ptr<Communicator> join_gloo_group(const TransportOptions& options, Where where) {
  static std::atomic<int> num_groups = 0;
  const RankEnvironment job = rank_environment(where);
  Store store = job_store(job, options.join_timeout, where);
  TransportOptions complete = options;
  if (complete.ranks_per_host == 0 && job.world_size % job.local_world_size == 0)
    complete.ranks_per_host = job.local_world_size;
  return join_gloo_group(store, concat("gloo", num_groups++), job.rank, job.world_size, complete,
                         where);
}

}  // namespace ringrad
