// One rank of the job that store_soak_test.py attacks. In each round the ranks find each other in
// the store, make a group, and train a small net. All rounds are equal, so all must end with the
// same bits.
//
// Rank 0 prints "round K: CHECKSUM" after each round. The job ends after the round in which a
// client sets "stop".

#include <cstdint>
#include <cstdio>
#include <string_view>

#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/core/random/random.h"
#include "ringrad/kernels/copy/fill.h"
#include "ringrad/nn/layers/activation.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/job/job_store.h"
#include "ringrad/parallel/comm/network/gloo_group.h"
#include "ringrad/parallel/comm/store/rank_environment.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"

namespace ringrad {
namespace {

constexpr int kSteps = 100;
constexpr std::int64_t kSamples = 32, kFeatures = 16, kClasses = 4;

// FNV-1a.
std::uint64_t checksum(const nn::Module& net) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const Tensor& parameter : net.parameters())
    for (const char byte : std::string_view(reinterpret_cast<const char*>(parameter.raw_data()),
                                            static_cast<std::size_t>(parameter.numel()) * 4))
      hash = (hash ^ static_cast<std::uint8_t>(byte)) * 0x100000001b3;
  return hash;
}

std::uint64_t train(Communicator& comm) {
  manual_seed(1);
  nn::Sequential net(nn::Linear(kFeatures, 64), nn::ReLU(), nn::Linear(64, kClasses));
  DistributedDataParallel model(net, comm);
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.05, .momentum = 0.9});
  const Tensor x = empty({kSamples, kFeatures});
  const Tensor labels = empty({kSamples}, {.dtype = DType::int64});
  for (int step = 0; step < kSteps; ++step) {
    for (std::int64_t i = 0; i < x.numel(); ++i)
      x.data<float>()[i] = static_cast<float>((i * 7 + step * 13 + comm.rank() * 5) % 11) - 5;
    for (std::int64_t i = 0; i < kSamples; ++i)
      labels.data<std::int64_t>()[i] = (i + step + comm.rank()) % kClasses;
    optimizer.zero_grad();
    cross_entropy(model(x), labels).backward();
    optimizer.step();
  }
  return checksum(net);
}

// True on all ranks, or on none.
bool must_stop(Store& store, Communicator& comm) {
  const Tensor stop = full({1}, comm.rank() == 0 && store.find("stop"));
  comm.broadcast(stop, 0);
  return stop.data<float>()[0] != 0;
}

void run() {
  const RankEnvironment job = rank_environment();
  Store store = job_store(job, std::chrono::seconds(30));
  for (int round = 1;; ++round) {
    const auto comm = join_gloo_group();
    const std::uint64_t sum = train(*comm);
    const bool last = must_stop(store, *comm);
    if (comm->rank() == 0) {
      std::printf("round %d: %016llx\n", round, static_cast<unsigned long long>(sum));
      std::fflush(stdout);
    }
    if (last) return;
  }
}

}  // namespace
}  // namespace ringrad

int main() {
  try {
    ringrad::run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
