// One rank of a job on several hosts, for tools/test_two_hosts: in each round a number goes around
// the ranks over sockets, and all ranks meet in the store.
//
//     store_ranks ROUNDS
//
// Each rank adds its number plus 1 to the value from the rank before it. Rank 0 prints
// "round K: SUM" after each round, and "done" at the end. Exits with 3 and a reason on stderr if a
// neighbour is silent for 5 s.

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ringrad/parallel/comm/common/descriptor.h"
#include "ringrad/parallel/comm/common/hosts.h"
#include "ringrad/parallel/comm/record/fault_injection.h"
#include "ringrad/parallel/comm/store/rank_environment.h"
#include "ringrad/parallel/comm/store/store.h"

using namespace ringrad;

namespace {

constexpr timeval kSilence{5, 0};

sockaddr_in address_of(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  RINGRAD_CHECK(inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1, ValueError,
                Where::current(), "a neighbour must have an address; got ", host);
  return address;
}

void check(bool good, const char* what) {
  RINGRAD_CHECK(good, Error, Where::current(), "the ring must move within ", kSilence.tv_sec,
                " s; got no ", what);
}

// The rank before this one, and the one after it.
struct Neighbours {
  Descriptor before, after;

  Neighbours(const RankEnvironment& job, Store& store)
      : after(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const std::string own = address_for({{job.store.host, 1}});
    sockaddr_in address = address_of(own, 0);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    check(bind(listener.number(), any, size) == 0 && listen(listener.number(), 1) == 0 &&
              getsockname(listener.number(), any, &size) == 0,
          "place to listen");
    store.set(concat("port/", job.rank), std::to_string(ntohs(address.sin_port)));
    store.set(concat("host/", job.rank), own);

    const int next = (job.rank + 1) % job.world_size;
    const std::string host = store.get(concat("host/", next));
    address = address_of(host, std::atoi(store.get(concat("port/", next)).c_str()));
    setsockopt(after.number(), SOL_SOCKET, SO_SNDTIMEO, &kSilence, sizeof kSilence);
    check(connect(after.number(), any, sizeof address) == 0, "connection");
    setsockopt(listener.number(), SOL_SOCKET, SO_RCVTIMEO, &kSilence, sizeof kSilence);
    before = Descriptor(accept(listener.number(), nullptr, nullptr));
    check(before.is_open(), "neighbour");
    setsockopt(before.number(), SOL_SOCKET, SO_RCVTIMEO, &kSilence, sizeof kSilence);
  }

  std::int64_t receive() const {
    std::int64_t number = 0;
    check(recv(before.number(), &number, sizeof number, MSG_WAITALL) == sizeof number, "number");
    return number;
  }
  void send(std::int64_t number) const {
    check(::send(after.number(), &number, sizeof number, MSG_NOSIGNAL) == sizeof number, "reader");
  }
};

}  // namespace

int main(int, char** argv) {
  try {
    const int num_rounds = std::atoi(argv[1]);
    const RankEnvironment job = rank_environment();
    Store store(job.store);
    const Neighbours neighbours(job, store);
    std::int64_t sum = 0;
    for (int round = 1; round <= num_rounds; ++round) {
      fault_step();
      if (job.rank > 0) sum = neighbours.receive();
      neighbours.send(sum + job.rank + 1);
      if (job.rank == 0) sum = neighbours.receive();
      const std::string meeting = concat("round/", round);
      if (store.add(meeting, 1) == job.world_size) store.set(meeting + "/all", "here");
      store.get(meeting + "/all");
      if (job.rank > 0) continue;
      std::printf("round %d: %lld\n", round, static_cast<long long>(sum));
      std::fflush(stdout);
    }
    if (job.rank == 0) std::printf("done\n");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
