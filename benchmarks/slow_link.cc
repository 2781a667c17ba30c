#include "ringrad/benchmarks/slow_link.h"

#include <chrono>
#include <thread>

#include "ringrad/parallel/comm/common/collective_call.h"

namespace ringrad::bench {
namespace {

class SlowLink final : public Communicator {
 public:
  SlowLink(Communicator& comm, double latency_s, double bytes_per_s)
      : Communicator(comm.rank(), comm.world_size(), comm.group() + ".slow"),
        comm_(comm),
        latency_s_(latency_s),
        bytes_per_s_(bytes_per_s) {}

  Tensor empty_shared(const Shape& shape, const Options& options, Where where) override {
    return comm_.empty_shared(shape, options, where);
  }
  int failed_rank() const noexcept override { return comm_.failed_rank(); }

 protected:
  void do_abort(const std::string& reason) noexcept override { comm_.abort(reason); }
  void do_collective(const CollectiveCall& call, const Tensor& output, const Tensor& input,
                     Where where) override {
    const auto begin = std::chrono::steady_clock::now();
    comm_.run(call, output, input, where);
    if (call.op != CollectiveOp::all_reduce) return;
    const double n = world_size(), bytes = static_cast<double>(output.numel()) *
                                           static_cast<double>(size_bytes(output.dtype()));
    const std::chrono::duration<double> takes(latency_s_ + 2 * (n - 1) / n * bytes / bytes_per_s_);
    std::this_thread::sleep_until(begin + takes);
  }
  void do_meet(const CollectiveCall& call, Where where) override { comm_.meet_for(call, where); }
  void do_send(const Tensor& tensor, int to, Where where) override {
    comm_.send(tensor, to, where);
  }
  void do_recv(const Tensor& tensor, int from, Where where) override {
    comm_.recv(tensor, from, where);
  }
  std::unique_ptr<Communicator> do_split(const std::vector<int>& ranks, const std::string&,
                                         Where where) override {
    return comm_.split(ranks.empty() ? -1 : ranks.front(), 0, where);
  }
  std::optional<CostModel> do_links(const Device&, Where) override {
    return CostModel{.within_host = {latency_s_, 1 / bytes_per_s_}};
  }

 private:
  Communicator& comm_;
  const double latency_s_, bytes_per_s_;
};

}  // namespace

std::unique_ptr<Communicator> over_slow_link(Communicator& comm, double latency_s,
                                             double bytes_per_s) {
  return std::make_unique<SlowLink>(comm, latency_s, bytes_per_s);
}

}  // namespace ringrad::bench
