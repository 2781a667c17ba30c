#include "ringrad/benchmarks/peers/gloo_collectives.h"

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <memory>

#include "ringrad/parallel/comm/network/gloo_context.h"

namespace ringrad::bench {
namespace {

using Context = std::shared_ptr<gloo::rendezvous::Context>;
using Call = std::function<void()>;
using MakeCall = std::function<Call(const Context&, float* data, size_t count)>;

constexpr std::int64_t kSyncLimitBytes = std::int64_t{64} << 20;

struct Algorithm {
  const char* name;
  bool sync;
  MakeCall make;
};

MakeCall modern(gloo::AllreduceOptions::Algorithm algorithm) {
  return [=](const Context& context, float* data, size_t count) -> Call {
    return [=, tag = uint32_t{0}]() mutable {
      gloo::AllreduceOptions options(context);
      options.setAlgorithm(algorithm);
      options.setOutput(data, count);
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
  return [](const Context& context, float* data, size_t count) -> Call {
    const auto operation =
        std::make_shared<Operation>(context, std::vector<float*>{data}, static_cast<int>(count));
    return [operation] { operation->run(); };
  };
}

const std::vector<Algorithm>& algorithms() {
  using Modern = gloo::AllreduceOptions::Algorithm;
  using RingChunked = gloo::AllreduceRingChunked<float>;
  using HalvingDoubling = gloo::AllreduceHalvingDoubling<float>;
  static const std::vector<Algorithm> list = {
      {"ring", false, modern(Modern::RING)},
      {"bcube", false, modern(Modern::BCUBE)},
      {"ring_chunked_sync", true, classic<RingChunked>()},
      {"halving_doubling_sync", true, classic<HalvingDoubling>()}};
  return list;
}

const Algorithm& algorithm_of(const CollectiveCase& one) {
  for (const Algorithm& algorithm : algorithms())
    if (one.algorithm == std::string(algorithm.name)) return algorithm;
  return algorithms().front();
}

Context connect(int rank, int ranks, bool sync, const std::string& folder) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  const auto store = std::make_shared<gloo::rendezvous::FileStore>(folder);
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  connect_full_mesh(*context, store, device);
  for (int peer = 0; sync && peer < ranks; ++peer) {
    if (peer != rank) context->getPair(peer)->setSync(true, /*busyPoll=*/true);
  }
  return context;
}

class GlooRank final : public RankEnd {
 public:
  GlooRank(Context context, const Algorithm& algorithm)
      : context_(std::move(context)), algorithm_(algorithm) {}

  bool has(const CollectiveCase&, bool in_place) const override { return in_place; }

  Call prepare(const CollectiveCase&, const Tensor& output, const Tensor&) override {
    return algorithm_.make(context_, output.data<float>(), static_cast<size_t>(output.numel()));
  }

 private:
  Context context_;
  const Algorithm& algorithm_;
};

}  // namespace

std::vector<std::string> gloo_algorithms() {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms()) names.emplace_back(algorithm.name);
  return names;
}

bool gloo_has(const CollectiveCase& one) {
  return one.routine == Routine::all_reduce &&
         !(algorithm_of(one).sync && one.bytes() >= kSyncLimitBytes);
}

void run_gloo(SharedCase& shared, int rank) {
  const CollectiveCase& one = shared.one;
  const Algorithm& algorithm = algorithm_of(one);
  GlooRank end(connect(rank, one.ranks, algorithm.sync, shared.folder.data()), algorithm);
  measure(shared, rank, end);
}

}  // namespace ringrad::bench
