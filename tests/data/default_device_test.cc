// This layer's tensors lie in the CPU's memory, even where tensors are made on a GPU by default.

#include <gtest/gtest.h>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/transfer.h"
#include "ringrad/data/distributed_sampler.h"
#include "ringrad/data/fashion_mnist.h"
#include "ringrad/data/loader.h"
#include "ringrad/data/sampler.h"
#include "ringrad/data/synthetic.h"
#include "ringrad/data/tensor_dataset.h"
#include "ringrad/data/transform.h"
#include "ringrad/tests/data/idx_file.h"
#include "ringrad/tests/num_gpus.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::expect_throws;

const Device kGpu = "cuda";

class DefaultDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::num_gpus() == 0) GTEST_SKIP() << "skipped: no GPU";
  }
};

void expect_on_cpu(const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) EXPECT_EQ(tensor.device(), Device());
}

void expect_equal(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
  expect_on_cpu(actual);
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) expect_same_bits(actual[i], expected[i]);
}

TEST_F(DefaultDeviceTest, DataSetsAreMadeOnTheCpu) {
  const TensorDataset plain_blobs = blobs(10), plain_spirals = spirals(10);
  const DefaultDeviceGuard guard(kGpu);
  expect_equal(blobs(10).tensors(), plain_blobs.tensors());
  expect_equal(spirals(10).tensors(), plain_spirals.tensors());
}

TEST_F(DefaultDeviceTest, FilesAreReadIntoTheCpusMemory) {
  using testing::Bytes;
  const auto images = testing::file_with(testing::idx_file(8, {2, 28, 28}, Bytes(2 * 28 * 28, 7)),
                                         "t10k-images-idx3-ubyte");
  testing::file_with(testing::idx_file(8, {2}, {3, 4}), "t10k-labels-idx1-ubyte");
  const DefaultDeviceGuard guard(kGpu);
  const TensorDataset read = fashion_mnist(Split::test, images.parent_path());
  expect_on_cpu(read.tensors());
  EXPECT_EQ(read.tensors()[1].to_vector<int>(), (std::vector<int>{3, 4}));
}

TEST_F(DefaultDeviceTest, SamplersDrawTheSame) {
  const auto expected = RandomSampler(100, 7).indices();
  const auto shared = DistributedSampler(100, {.num_replicas = 3, .rank = 1}).indices();
  const DefaultDeviceGuard guard(kGpu);
  EXPECT_EQ(RandomSampler(100, 7).indices(), expected);
  EXPECT_EQ(DistributedSampler(100, {.num_replicas = 3, .rank = 1}).indices(), shared);
  EXPECT_EQ(default_device(), kGpu);
}

TEST_F(DefaultDeviceTest, BatchesAreMadeOnTheCpuByAnyThread) {
  const TensorDataset images({full({6, 1, 8, 8}, 3, {.dtype = DType::uint8}), arange(6)});
  const auto batches = [&](int num_workers) {
    RandomSampler sampler(6);
    const LoaderOptions options{.batch_size = 2,
                                .num_workers = num_workers,
                                .transforms = {random_crop({6, 6}, 2), random_horizontal_flip(),
                                               normalize({0.5f}, {0.5f})}};
    DataLoader loader(images, sampler, options);
    std::vector<Tensor> all;
    for (const Batch& batch : loader)
      all.insert(all.end(), batch.tensors.begin(), batch.tensors.end());
    return all;
  };
  const auto expected = batches(0);
  const DefaultDeviceGuard guard(kGpu);
  expect_equal(batches(0), expected);
  expect_equal(batches(2), expected);
}

TEST_F(DefaultDeviceTest, TensorsOnAGpuAreRefused) {
  const Tensor images = zeros({2, 1, 4, 4}, {.device = kGpu});
  expect_throws<DeviceError>([&] { TensorDataset({images}); },
                             "TensorDataset: needs tensors on a CPU; got cuda:0");
  const std::vector<std::int64_t> indices{0, 1};
  for (const auto& [name, transform] : {std::pair("random_crop", random_crop({4, 4})),
                                        {"random_horizontal_flip", random_horizontal_flip()},
                                        {"normalize", normalize({0}, {1})}})
    expect_throws<DeviceError>(
        [&, &transform = transform] {
          apply({&transform, 1}, images, {indices});
        },
        concat(name, ": needs tensors on a CPU"));
}

}  // namespace
}  // namespace ringrad
