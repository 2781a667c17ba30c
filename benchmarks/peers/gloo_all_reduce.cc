// Peer: Gloo's all-reduce between processes of one host over TCP on the loopback device, float32
// sum in place, OMP_NUM_THREADS ranks. Gloo's algorithms differ by more than ten times from each
// other here, so each is a variant and the fastest counts:
//
//   ring (what torch.distributed uses), bcube, and the older ring_chunked and halving_doubling in
//   Gloo's synchronous mode (_sync), which polls instead of using a thread. In that mode both
//   ranks write before they read, so buffers that overflow the sockets' wait for each other until
//   a timeout: 64 MiB is left out.

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <stdexcept>

#include "benchmarks/cases.h"
#include "benchmarks/collective_timing.h"

namespace ringrad::bench {
namespace {

using Context = std::shared_ptr<gloo::rendezvous::Context>;
using Call = std::function<void()>;
using MakeCall = std::function<Call(const Context&, std::vector<float>&)>;

constexpr size_t kSyncLimitBytes = size_t{64} << 20;

struct Algorithm {
  const char* name;
  bool sync;
  MakeCall make;
};

MakeCall modern(gloo::AllreduceOptions::Algorithm algorithm) {
  return [=](const Context& context, std::vector<float>& buffer) -> Call {
    return [=, &buffer, tag = uint32_t{0}]() mutable {
      gloo::AllreduceOptions options(context);
      options.setAlgorithm(algorithm);
      options.setOutput(buffer.data(), buffer.size());
      options.setReduceFunction([](void* out, const void* a, const void* b, size_t n) {
        gloo::sum<float>(out, a, b, n);
      });
      options.setTag(tag++ & 0xffff);  // consecutive calls must not take each other's messages
      gloo::allreduce(options);
    };
  };
}

template <class Operation>
MakeCall classic() {
  return [](const Context& context, std::vector<float>& buffer) -> Call {
    const auto operation = std::make_shared<Operation>(context, std::vector<float*>{buffer.data()},
                                                       static_cast<int>(buffer.size()));
    return [operation] { operation->run(); };
  };
}

std::vector<Algorithm> algorithms() {
  using Modern = gloo::AllreduceOptions::Algorithm;
  using RingChunked = gloo::AllreduceRingChunked<float>;
  using HalvingDoubling = gloo::AllreduceHalvingDoubling<float>;
  return {{"ring", false, modern(Modern::RING)},
          {"bcube", false, modern(Modern::BCUBE)},
          {"ring_chunked_sync", true, classic<RingChunked>()},
          {"halving_doubling_sync", true, classic<HalvingDoubling>()}};
}

Context connect(int rank, int ranks, bool sync, const std::string& folder) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  gloo::rendezvous::FileStore store(folder);
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  for (int peer = 0; sync && peer < ranks; ++peer) {
    if (peer != rank) context->getPair(peer)->setSync(true, /*busyPoll=*/true);
  }
  return context;
}

// What one forked rank does with one algorithm and size.
void run_rank(const Algorithm& algorithm, const std::string& name, size_t bytes, int rank,
              RankBoard& board, const std::string& folder, const Report& report) {
  const int ranks = report.threads();
  const Context context = connect(rank, ranks, algorithm.sync, folder);
  std::vector<float> buffer(bytes / sizeof(float));
  fill_for_sum(buffer, rank);
  const Call call = algorithm.make(context, buffer);
  call();
  check_sum(buffer, ranks);
  const auto timing = time_collective(board, rank, ranks, call);
  if (timing) report.time(name, *timing, bench::bytes(static_cast<double>(bytes)));
}

// The ranks' shared board and the folder of their rendezvous, released at the end.
struct Meeting {
  Meeting() {
    if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("cannot make " + folder);
    void* memory =
        mmap(nullptr, sizeof(RankBoard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("cannot map a shared page");
    board = new (memory) RankBoard;
  }
  ~Meeting() {
    munmap(board, sizeof(RankBoard));
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  std::string folder = std::filesystem::temp_directory_path() / "gloo_peer_XXXXXX";
  RankBoard* board = nullptr;
};

Case all_reduce_case(const Algorithm& algorithm, size_t bytes) {
  const std::string name = all_reduce_name(bytes) + "@" + algorithm.name;
  return {name, [=](const Report& report) {
            const Meeting meeting;
            std::vector<pid_t> children;
            for (int rank = 0; rank < report.threads(); ++rank) {
              const pid_t child = fork();
              if (child == 0) {
                try {
                  run_rank(algorithm, name, bytes, rank, *meeting.board, meeting.folder, report);
                  _exit(EXIT_SUCCESS);
                } catch (const std::exception& error) {
                  std::fprintf(stderr, "gloo: %s: rank %d: %s\n", name.c_str(), rank, error.what());
                  _exit(EXIT_FAILURE);
                }
              }
              children.push_back(child);
            }
            bool failed = false;
            for (const pid_t child : children) {
              int status = 0;
              failed |= waitpid(child, &status, 0) != child || status != 0;
            }
            if (failed) throw std::runtime_error("a rank failed");
          }};
}

}  // namespace
}  // namespace ringrad::bench

int main(int argc, char** argv) {
  using namespace ringrad::bench;
  std::vector<Case> cases;
  for (const auto& algorithm : algorithms()) {
    for (std::size_t bytes : all_reduce_sizes()) {
      if (!algorithm.sync || bytes < kSyncLimitBytes) {
        cases.push_back(all_reduce_case(algorithm, bytes));
      }
    }
  }
  return run_cases(argc, argv, "gloo", cases);
}
