// DistributedDataParallel with a communicator of one rank, which shows what it is asked to do.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/autograd/reduce.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/parallel/comm/common/collective_call.h"
#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"

namespace ringrad {
namespace {

nn::Sequential make_net() {
  return nn::Sequential(nn::Linear(6, 16), nn::ReLU(), nn::Linear(16, 3));
}

// A group of one, which reports where its shared memory is and whether the tensors it reduces lie
// there.
class OneRank final : public Communicator {
 public:
  OneRank() : Communicator(0, 1, "one") {}

  Tensor empty_shared(const Shape& shape, const Options& options, Where where) override {
    shared_ = empty(shape, options, where);
    return shared_;
  }
  int failed_rank() const noexcept override { return -1; }

  const Tensor& shared() const { return shared_; }
  int num_averages_in_place() const { return num_averages_in_place_; }
  int num_averages() const { return num_averages_; }

 protected:
  void do_abort(const std::string&) noexcept override {}
  void do_collective(const CollectiveCall& call, const Tensor& tensor, const Tensor&,
                     Where) override {
    if (call.op != CollectiveOp::all_reduce || call.reduce != ReduceOp::mean) return;
    ++num_averages_;
    const std::byte *begin = shared_.raw_data(), *end = begin + shared_.numel() * 4;
    num_averages_in_place_ += tensor.raw_data() >= begin && tensor.raw_data() < end;
  }
  void do_meet(const CollectiveCall&, Where) override {}
  void do_send(const Tensor&, int, Where) override {}
  void do_recv(const Tensor&, int, Where) override {}
  std::unique_ptr<Communicator> do_split(const std::vector<int>&, const std::string&,
                                         Where) override {
    return nullptr;
  }

 private:
  Tensor shared_;
  int num_averages_ = 0, num_averages_in_place_ = 0;
};

TEST(OneReplicaTest, GradientsLieWhereTheCommunicatorReducesThem) {
  OneRank comm;
  nn::Sequential net = make_net();
  DistributedDataParallel replica(net, comm, {.bucket_bytes = 256});
  sum(replica(ones({24, 6}))).backward();
  ASSERT_TRUE(comm.shared().defined());
  EXPECT_GT(comm.num_averages(), 1);
  EXPECT_EQ(comm.num_averages_in_place(), comm.num_averages());
}

// In a process of its own, because a plan is read only once.
TEST(OneReplicaTest, StepsAreForwardPassesInTraining) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto train_and_evaluate = [] {
    for (const auto& [name, value] : {std::pair("RINGRAD_INJECT", "exit:0=7@step=2"),
                                      std::pair("RANK", "0"), std::pair("WORLD_SIZE", "1")})
      setenv(name, value, 1);
    OneRank comm;
    nn::Sequential net = make_net();
    DistributedDataParallel replica(net, comm);
    const Tensor x = ones({24, 6});
    replica(x);
    net.eval();
    replica(x);
    net.train();
    std::fputs("second step\n", stderr);
    replica(x);
  };
  EXPECT_EXIT(train_and_evaluate(), ::testing::ExitedWithCode(7),
              "second step\nringrad inject: rank 0 exits with code 7 at step 2");
}

}  // namespace
}  // namespace ringrad
