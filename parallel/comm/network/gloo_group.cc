#include "ringrad/parallel/comm/network/gloo_group.h"

#include <gloo/allgatherv.h>
#include <gloo/alltoallv.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <numeric>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/common/no_broken_pipe.h"
#include "ringrad/parallel/comm/job/job_store.h"
#include "ringrad/parallel/comm/network/gloo_context.h"

namespace ringrad {
namespace {

using Network = std::shared_ptr<gloo::transport::Device>;
using Context = std::shared_ptr<GlooContext>;
using gloo::transport::UnboundBuffer;

// Messages lie beyond the slots of Gloo's collectives, of which it says that they leave the upper
// bits free.
constexpr std::uint64_t kMessageSlots = std::uint64_t{0x7272} << 48;

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
    const int probe = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    is_own = probe >= 0 && bind(probe, at->ai_addr, at->ai_addrlen) == 0;
    if (probe >= 0) close(probe);
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

class GlooSending final : public Sending {
 public:
  // Waiting for a send is not in const's way.
  GlooSending(const Context& context, const std::byte* data, std::size_t bytes, int to,
              std::uint64_t slot)
      : buffer_(context->make_buffer(const_cast<std::byte*>(data), bytes)) {
    buffer_->send(to, slot);
  }
  void wait(TransportCall& call) override {
    if (!std::exchange(is_done_, true))
      guarded([&] { return buffer_->waitSend(call.time_left()); });
  }

 private:
  const std::unique_ptr<UnboundBuffer> buffer_;
  bool is_done_ = false;
};

class GlooTransport final : public Transport {
 public:
  GlooTransport(Store& store, const std::string& name, int rank, int world_size, Network network,
                std::chrono::milliseconds timeout, std::uint32_t first_tag, Where where)
      : network_(std::move(network)),
        timeout_(timeout),
        next_tag_(first_tag),
        num_messages_to_(static_cast<std::size_t>(world_size), 0),
        num_messages_from_(static_cast<std::size_t>(world_size), 0),
        context_(std::make_shared<GlooContext>(rank, world_size)) {
    context_->setTimeout(std::max(timeout / kConnectingShare, std::chrono::milliseconds(1)));
    Meeting meeting(store, name, where);
    const NoBrokenPipe guard;
    const auto deadline = TransportCall::Clock::now() + timeout;
    try {
      context_->connectFullMesh(meeting, network_);
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

  void all_gather(std::byte* out, Sizes bytes, TransportCall& call) override {
    guarded([&] {
      gloo::AllgathervOptions options(context_);
      options.setOutput<char>(context_->make_buffer(out, total(bytes)),
                              {bytes.begin(), bytes.end()});
      options.setTag(next_tag_++);
      options.setTimeout(call.time_left());
      gloo::allgatherv(options);
    });
  }

  void all_to_all(std::byte* out, Sizes out_bytes, const std::byte* in, Sizes in_bytes,
                  TransportCall& call) override {
    guarded([&] {
      gloo::AlltoallvOptions options(context_);
      options.setInput<char>(context_->make_buffer(const_cast<std::byte*>(in), total(in_bytes)),
                             {in_bytes.begin(), in_bytes.end()});
      options.setOutput<char>(context_->make_buffer(out, total(out_bytes)),
                              {out_bytes.begin(), out_bytes.end()});
      options.setTag(next_tag_++);
      options.setTimeout(call.time_left());
      gloo::alltoallv(options);
    });
  }

  void broadcast(std::byte* data, std::size_t bytes, int root, TransportCall& call) override {
    guarded([&] {
      gloo::BroadcastOptions options(context_);
      options.setOutput<char>(context_->make_buffer(data, bytes));
      options.setRoot(root);
      options.setTag(next_tag_++);
      options.setTimeout(call.time_left());
      gloo::broadcast(options);
    });
  }

  std::unique_ptr<Sending> send(const std::byte* data, std::size_t bytes, int to,
                                const Tensor&) override {
    const std::uint64_t slot = kMessageSlots + num_messages_to_[static_cast<std::size_t>(to)]++;
    return guarded([&] { return std::make_unique<GlooSending>(context_, data, bytes, to, slot); });
  }

  void recv(std::byte* data, std::size_t bytes, int from, TransportCall& call) override {
    const std::uint64_t slot = kMessageSlots + num_messages_from_[static_cast<std::size_t>(from)]++;
    guarded([&] {
      const auto buffer = context_->make_buffer(data, bytes);
      buffer->recv(from, slot);
      buffer->waitRecv(call.time_left());
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
                                           network_, timeout_, 0, where);
  }
  bool outlives_ranks() const override { return true; }

 private:
  static std::size_t total(Sizes bytes) {
    return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
  }

  // Each rank hears from every other. Without it, a rank that ends early would break connections
  // that a slower rank still makes, or end what the lookouts have sent unread, which resets a
  // connection.
  void meet(TransportCall::Clock::time_point deadline) {
    const std::atomic<bool> is_broken = false;
    TransportCall call(deadline, is_broken, {});
    const std::vector<std::size_t> nothing(static_cast<std::size_t>(context_->size), 0);
    std::byte from{}, to{};
    all_to_all(&to, nothing, &from, nothing, call);
  }

  Network network_;
  const std::chrono::milliseconds timeout_;                         // of connecting
  std::uint32_t next_tag_;                                          // wraps around
  std::vector<std::uint64_t> num_messages_to_, num_messages_from_;  // (world_size)
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
    transport = std::make_unique<GlooTransport>(
        store, name, rank, world_size, std::move(network), complete.join_timeout,
        static_cast<std::uint32_t>(complete.first_count), where);
  auto comm = make_transport_communicator(store, name, rank, world_size, std::move(transport),
                                          complete, where);
  comm->barrier(where);  // no rank goes on before all have found each other
  return comm;
}

std::unique_ptr<Communicator> join_gloo_group(const TransportOptions& options, Where where) {
  static std::atomic<int> num_groups = 0;
  const RankEnvironment job = rank_environment(where);
  Store store = job_store(job, options.join_timeout, where);
  return join_gloo_group(store, concat("gloo", num_groups++), job.rank, job.world_size, options,
                         where);
}

}  // namespace ringrad
