// The reference is one rank, in float64, on the concatenated parts of all ranks.

#include "ringrad/parallel/train/data_parallel/sync_batch_norm.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ringrad/autograd/activation_checkpoint.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/transfer.h"
#include "ringrad/core/view.h"
#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/models/models.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/reference/normalization.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;

constexpr std::int64_t kChannels = 3, kHeight = 2, kWidth = 5;

// The number of samples of each rank.
using Parts = std::vector<std::int64_t>;

std::int64_t sum_of(const Parts& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
}

Tensor part_of(const Tensor& whole, const Parts& parts, int rank) {
  const Parts before(parts.begin(), parts.begin() + rank);
  const std::int64_t first = sum_of(before);
  return clone(view::slice(whole, 0, first, first + parts[static_cast<std::size_t>(rank)]));
}

// Thread ranks, each with the device under test, or its neighbour, as its default.
void on_ranks(int world_size, const std::function<void(Communicator&)>& body) {
  const Device device = default_device();
  run_ranks(world_size, [&](Communicator& comm) {
    const DefaultDeviceGuard guard(
        device.is_cuda() ? Device(DeviceType::cuda, comm.rank() % num_cuda_devices()) : device);
    body(comm);
  });
}

enum class End { plain, relu, add_relu };

// The inputs, on all ranks together.
struct Whole {
  Tensor x, residual, grad, weight, bias;

  Whole(std::uint64_t seed, std::int64_t batch, DType dtype) {
    const DefaultDeviceGuard on_host{testing::host_device()};
    Random random(seed);
    const Shape shape{batch, kChannels, kHeight, kWidth};
    x = random.tensor(shape, 3, 5, dtype);  // far from 0
    residual = random.tensor(shape, dtype);
    grad = random.tensor(shape, dtype);
    weight = random.tensor({kChannels});
    bias = random.tensor({kChannels});
  }
};

// The results of two steps: everything that must agree.
struct Result {
  Tensor y, grad_x, grad_residual, grad_weight, grad_bias, running_mean, running_var;
};

Result run_layer(nn::BatchNorm2d& norm, const Whole& in, End end, const Tensor& x,
                 const Tensor& residual, const Tensor& grad) {
  norm.load_state_dict({{"weight", to(in.weight, norm.weight.dtype())},
                        {"bias", to(in.bias, norm.bias.dtype())},
                        {"running_mean", norm.running_mean},
                        {"running_var", norm.running_var}});
  Tensor y;
  for (int step = 0; step < 2; ++step) {
    norm.zero_grad();
    x.set_grad({});
    residual.set_grad({});
    y = end == End::plain  ? norm.forward(x)
        : end == End::relu ? norm.forward_relu(x)
                           : norm.forward_add_relu(x, residual);
    y.backward(grad);
  }
  return {y.detach(),       x.grad(),          residual.grad(), norm.weight.grad(),
          norm.bias.grad(), norm.running_mean, norm.running_var};
}

Result expected_of(const Whole& in, End end) {
  const DefaultDeviceGuard on_host{testing::host_device()};
  nn::BatchNorm2d norm(kChannels);
  norm.to(DType::float64);
  const auto wide = [](const Tensor& x) { return to(x, DType::float64).detach(); };
  return run_layer(norm, in, end, wide(in.x).set_requires_grad(),
                   wide(in.residual).set_requires_grad(), wide(in.grad));
}

void expect_as_one_rank(Communicator& comm, const Parts& parts, DType dtype, End end) {
  SCOPED_TRACE(concat(dtype, " on rank ", comm.rank(), " of ", comm.world_size()));
  const Whole in(7, sum_of(parts), dtype);
  const Result expected = expected_of(in, end);
  nn::BatchNorm2d norm(kChannels);
  if (dtype == DType::float64) norm.to(dtype);
  EXPECT_EQ(synchronize_batch_norm(norm, comm), 1);
  const auto own = [&](const Tensor& whole) {
    return to(part_of(whole, parts, comm.rank()), default_device()).detach();
  };
  const Result result = run_layer(norm, in, end, own(in.x).set_requires_grad(),
                                  own(in.residual).set_requires_grad(), own(in.grad));
  const auto expect_part = [&](const Tensor& actual, const Tensor& whole) {
    expect_close(actual, part_of(whole, parts, comm.rank()), 64);
  };
  expect_part(result.y, expected.y);
  expect_part(result.grad_x, expected.grad_x);
  if (end == End::add_relu) expect_part(result.grad_residual, expected.grad_residual);
  for (const Tensor& part : {result.grad_weight, result.grad_bias}) comm.all_reduce(part);
  expect_close(result.grad_weight, expected.grad_weight, 256);
  expect_close(result.grad_bias, expected.grad_bias, 256);
  for (const auto& [actual, whole] : {std::pair(result.running_mean, expected.running_mean),
                                      std::pair(result.running_var, expected.running_var)}) {
    expect_close(actual, whole, 64);
    const Tensor of_rank_0 = clone(actual.detach());
    comm.broadcast(of_rank_0);
    expect_same_bits(actual, of_rank_0);
  }
}

TEST(SyncBatchNormDeathTest, ProcessesComputeWhatOneRankComputes) {
  if (default_device().is_cuda()) GTEST_SKIP() << "a process that has used a GPU cannot fork";
  testing::Processes processes(3, ProcessGroupOptions(), [](Communicator& comm) -> std::string {
    expect_as_one_rank(comm, {4, 1, 2}, DType::float32, End::add_relu);
    return "";
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}

TEST(SyncBatchNormTest, RanksComputeWhatOneRankComputes) {
  for (const Parts& parts : {Parts{6}, Parts{3, 3}, Parts{2, 2, 2, 2}})
    for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16})
      on_ranks(static_cast<int>(parts.size()),
               [&](Communicator& comm) { expect_as_one_rank(comm, parts, dtype, End::relu); });
}

TEST(SyncBatchNormTest, PartsMayDifferAndBeEmpty) {
  for (const Parts& parts : {Parts{5, 1}, Parts{0, 4, 3}, Parts{3, 0, 0, 1}})
    for (const End end : {End::plain, End::relu, End::add_relu})
      on_ranks(static_cast<int>(parts.size()), [&](Communicator& comm) {
        expect_as_one_rank(comm, parts, DType::float32, end);
        expect_as_one_rank(comm, parts, DType::float64, end);
      });
}

// Compares with the plain loop, without the library's batch norm.
TEST(SyncBatchNormTest, AgreesWithTheFormula) {
  const Parts parts{3, 1};
  const Whole in(5, sum_of(parts), DType::float64);
  const Tensor x = contiguous(view::permute(in.x, {1, 0, 2, 3})),
               grad = contiguous(view::permute(in.grad, {1, 0, 2, 3}));
  const std::int64_t rows = x.numel() / kChannels;
  std::vector<double> expected_y, expected_grad;
  for (std::int64_t c = 0; c < kChannels; ++c) {
    const double* const values = x.data<double>() + c * rows;
    const double* const weights = grad.data<double>() + c * rows;
    const auto forward = reference::normalize({values, values + rows}, 1e-5);
    const auto backward = reference::normalize_backward(forward, {weights, weights + rows});
    expected_y.insert(expected_y.end(), forward.xhat.begin(), forward.xhat.end());
    expected_grad.insert(expected_grad.end(), backward.begin(), backward.end());
  }
  const Tensor y = empty_like(x), grad_x = empty_like(x);
  on_ranks(2, [&](Communicator& comm) {
    nn::BatchNorm2d norm(kChannels, {.affine = false});
    norm.to(DType::float64);
    synchronize_batch_norm(norm, comm);
    const auto own = [&](const Tensor& whole) { return part_of(whole, parts, comm.rank()); };
    const Tensor part = to(own(in.x), default_device()).detach().set_requires_grad();
    const Tensor result = norm(part);
    result.backward(to(own(in.grad), default_device()));
    const std::int64_t first = comm.rank() == 0 ? 0 : parts[0], last = first + part.size(0);
    const auto put = [&](const Tensor& whole, const Tensor& values) {
      const Tensor by_channel = view::permute(to(values.detach(), Device()), {1, 0, 2, 3});
      for (std::int64_t c = 0; c < kChannels; ++c)
        for (std::int64_t b = first; b < last; ++b)
          for (std::int64_t i = 0; i < kHeight * kWidth; ++i)
            whole.data<double>()[(c * sum_of(parts) + b) * kHeight * kWidth + i] =
                view::select(view::select(by_channel, 0, c), 0, b - first)
                    .to_vector<double>()[static_cast<std::size_t>(i)];
    };
    put(y, result);
    put(grad_x, part.grad());
  });
  expect_close(y, expected_y, 64);
  expect_close(grad_x, expected_grad, 64);
}

// d loss / d x for an x of one rank, which moves the mean and variance of the other.
TEST(SyncBatchNormTest, GradientsAgreeWithDifferencesAcrossRanks) {
  const Parts parts{2, 1};
  const Whole in(3, sum_of(parts), DType::float64);
  const auto loss_of = [&](const Tensor& whole, const Tensor& gradient) {
    double loss = 0;
    on_ranks(2, [&](Communicator& comm) {
      nn::BatchNorm2d norm(kChannels);
      norm.to(DType::float64);
      synchronize_batch_norm(norm, comm);
      const auto own = [&](const Tensor& all) {
        return to(part_of(all, parts, comm.rank()), default_device()).detach();
      };
      const Tensor x = own(whole).set_requires_grad(), weights = own(in.grad);
      const Tensor part = sum(norm.forward_relu(x) * weights);
      part.backward();
      const Tensor total = part.detach();
      comm.all_reduce(total);
      const std::int64_t count = x.numel(), first = comm.rank() * parts[0] * count / x.size(0);
      const auto values = x.grad().to_vector<double>();
      for (std::int64_t i = 0; i < count; ++i)
        gradient.data<double>()[first + i] = values[static_cast<std::size_t>(i)];
      if (comm.rank() == 0) loss = total.item<double>();
    });
    return loss;
  };
  const Tensor gradient = empty_like(in.x), ignored = empty_like(in.x);
  loss_of(in.x, gradient);
  constexpr double kStep = 1e-6;
  for (std::int64_t i = 0; i < in.x.numel(); i += 7) {
    const auto moved = [&](double by) {
      const Tensor x = clone(in.x);
      x.data<double>()[i] += by;
      return loss_of(x, ignored);
    };
    EXPECT_NEAR(gradient.data<double>()[i], (moved(kStep) - moved(-kStep)) / (2 * kStep), 1e-5);
  }
}

TEST(SyncBatchNormTest, OneRankHasTheBitsOfThePlainOne) {
  on_ranks(1, [](Communicator& comm) {
    const Whole in(1, 4, DType::float32);
    nn::BatchNorm2d plain(kChannels), synchronised(kChannels);
    synchronize_batch_norm(synchronised, comm);
    const Tensor x = to(in.x, default_device());
    expect_same_bits(synchronised(x), plain(x));
    expect_same_bits(synchronised.running_var, plain.running_var);
  });
}

// Rank 1 makes no call at all.
TEST(SyncBatchNormTest, EvaluationCallsNoOtherRank) {
  on_ranks(2, [](Communicator& comm) {
    nn::BatchNorm2d norm(kChannels), plain(kChannels);
    synchronize_batch_norm(norm, comm);
    norm.eval();
    plain.eval();
    const Tensor x = ones({2, kChannels, 1, 1});
    if (comm.rank() == 0) expect_same_bits(norm(x), plain(x));
    comm.barrier();
  });
}

TEST(SyncBatchNormTest, RunningStatisticsAreConstants) {
  on_ranks(2, [](Communicator& comm) {
    nn::BatchNorm2d norm(kChannels);
    synchronize_batch_norm(norm, comm);
    norm.running_var.set_requires_grad();
    EXPECT_THROW(norm(ones({2, kChannels, 1, 1})), AutogradError);
  });
}

// The second micro-batch updates the running statistics before the first one's segment runs again.
TEST(SyncBatchNormTest, SegmentsMayBeCheckpointed) {
  on_ranks(2, [](Communicator& comm) {
    const auto gradients_of = [&](bool is_checkpointed) {
      nn::BatchNorm2d norm(kChannels);
      synchronize_batch_norm(norm, comm);
      const auto segment = [&](const std::vector<Tensor>& v) { return exp(norm(v[0])); };
      Random random(static_cast<std::uint64_t>(comm.rank()));
      std::vector<Tensor> x;
      Tensor loss = zeros({});
      for (int batch = 0; batch < 2; ++batch) {
        x.push_back(random.tensor({2, kChannels, kHeight, kWidth}).set_requires_grad());
        loss = loss + sum(is_checkpointed ? activation_checkpoint(segment, {x.back()})
                                          : segment({x.back()}));
      }
      loss.backward();
      return std::vector{x[0].grad(), x[1].grad(), norm.weight.grad(), norm.bias.grad()};
    };
    const std::vector<Tensor> expected = gradients_of(false), actual = gradients_of(true);
    for (std::size_t i = 0; i < 4; ++i) expect_close(actual[i], expected[i], 64);
  });
}

// Buckets are reduced on another thread while batch norms call the other ranks.
TEST(SyncBatchNormTest, GradientsMayBeReducedBesideBackward) {
  const auto gradients_of = [](int world_size) {
    std::vector<Tensor> result;
    on_ranks(world_size, [&](Communicator& comm) {
      manual_seed(1);
      nn::Sequential net = nn::make_model("convnet", {.height = 8, .width = 8});
      synchronize_batch_norm(net, comm);
      DistributedDataParallel model(net, comm, {.bucket_bytes = 1, .overlap = Overlap::always});
      Random random(2);
      const Tensor x = random.tensor({4, 1, 8, 8});
      for (int pass = 0; pass < 3; ++pass) {
        net.zero_grad();
        mean(square(model(part_of(x, Parts(static_cast<std::size_t>(world_size), 4 / world_size),
                                  comm.rank()))))
            .backward();
      }
      EXPECT_EQ(model.num_buckets(), 12U);
      if (comm.rank() == 0)
        for (const Tensor& parameter : net.parameters())
          result.push_back(testing::contiguous_copy(to_host(parameter.grad())));
    });
    return result;
  };
  const auto expected = gradients_of(1);
  for (const int world_size : {2, 4}) {
    const auto actual = gradients_of(world_size);
    for (std::size_t i = 0; i < expected.size(); ++i) expect_close(actual[i], expected[i], 64);
  }
}

TEST(SyncBatchNormTest, EveryBatchNormOfAModelIsFound) {
  on_ranks(2, [](Communicator& comm) {
    nn::Sequential net = nn::make_model("resnet20"), none = nn::make_model("mlp");
    EXPECT_EQ(synchronize_batch_norm(net, comm), 21);  // 19 layers, and two shortcuts
    EXPECT_EQ(synchronize_batch_norm(none, comm), 0);
  });
}

// --- Errors ------------------------------------------------------------------------------------

TEST(SyncBatchNormTest, RanksMustAgreeOnChannelsAndDType) {
  on_ranks(2, [](Communicator& comm) {
    const auto part = comm.split(0);
    nn::BatchNorm2d norm(2 + comm.rank());
    synchronize_batch_norm(norm, *part);
    EXPECT_THROW(norm(ones({2, 2 + comm.rank(), 1, 1})), CollectiveError);
  });
  on_ranks(2, [](Communicator& comm) {
    nn::BatchNorm2d norm(2);
    synchronize_batch_norm(norm, comm);
    const DType dtype = comm.rank() == 0 ? DType::float32 : DType::float16;
    expect_throws<CollectiveError>(
        [&] {
          norm(ones({2, 2, 1, 1}, {.dtype = dtype}));
        },
        "x must have one dtype on all ranks; got float32 on rank 0 and float16 on rank 1");
  });
}

TEST(SyncBatchNormTest, AllRanksTogetherNeedTwoValues) {
  on_ranks(2, [](Communicator& comm) {
    nn::BatchNorm1d norm(2);
    synchronize_batch_norm(norm, comm);
    expect_throws<ShapeError>(
        [&] {
          norm(ones({comm.rank(), 2}));
        },
        "training needs more than one value per channel on all ranks "
        "together; got 1, and x (");
    EXPECT_EQ(norm.running_mean.to_vector<float>(), (std::vector<float>{0, 0}));
    norm(ones({1, 2}));  // two of them
  });
}

TEST(SyncBatchNormTest, DoubleBackwardIsRefused) {
  on_ranks(2, [](Communicator& comm) {
    nn::BatchNorm1d norm(2);
    synchronize_batch_norm(norm, comm);
    const Tensor y = sum(norm(ones({3, 2}).set_requires_grad()));
    expect_throws<AutogradError>([&] { y.backward({}, {.create_graph = true}); },
                                 "backward must run without create_graph");
  });
}

// Meanwhile rank 1 waits in the layer.
TEST(SyncBatchNormTest, AnExceptionOnOneRankEndsTheOthers) {
  const auto train = [](Communicator& comm) {
    nn::BatchNorm1d norm(2);
    synchronize_batch_norm(norm, comm);
    const Tensor y = norm(ones({3, 2}).set_requires_grad());
    if (comm.rank() == 0) norm(ones({3, 2, 2, 2}));
    y.backward(ones({3, 2}));
  };
  EXPECT_THROW(on_ranks(2, train), ShapeError);
}

}  // namespace
}  // namespace ringrad
