#include "ringrad/core/dlpack.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "ringrad/core/dlpack_abi.h"
#include "ringrad/core/view.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

// Another library's tensor: six int32 on the heap, seen as (2, 3). Its deleter frees the memory and
// counts. AddressSanitizer sees what is freed twice, too early, or never.
template <class Managed>
struct Foreign {
  static inline int num_deleted = 0;

  std::vector<std::int32_t> numbers{0, 1, 2, 3, 4, 5};
  std::array<std::int64_t, 2> shape{2, 3}, strides{3, 1};
  Managed managed{};

  static Managed* make() {
    num_deleted = 0;
    auto* const all = new Foreign;
    all->managed.dl_tensor = {.data = all->numbers.data(),
                              .device = {dlpack::kCpu, 0},
                              .ndim = 2,
                              .dtype = {dlpack::kInt, 32, 1},
                              .shape = all->shape.data(),
                              .strides = all->strides.data(),
                              .byte_offset = 0};
    all->managed.manager_ctx = all;
    all->managed.deleter = [](Managed* self) {
      ++num_deleted;
      delete static_cast<Foreign*>(self->manager_ctx);
    };
    if constexpr (requires { all->managed.version; }) all->managed.version = {1, 0};
    return &all->managed;
  }
};
using Versioned = Foreign<DLManagedTensorVersioned>;
using Unversioned = Foreign<DLManagedTensor>;

template <class Managed>
void expect_shared_until_the_last_view_ends() {
  Managed* const theirs = Foreign<Managed>::make();
  auto* const numbers = static_cast<std::int32_t*>(theirs->dl_tensor.data);
  Tensor x = from_dlpack(theirs), row = view::select(x, 0, 1);
  EXPECT_EQ(x.shape(), Shape({2, 3}));
  EXPECT_EQ(x.dtype(), DType::int32);
  numbers[4] = 40;                   // they write, we read
  row.data<std::int32_t>()[0] = -3;  // we write, they read
  EXPECT_EQ(x.to_vector<int>(), std::vector<int>({0, 1, 2, -3, 40, 5}));
  EXPECT_EQ(numbers[3], -3);
  x = {};
  EXPECT_EQ(Foreign<Managed>::num_deleted, 0);
  EXPECT_EQ(row.to_vector<int>(), std::vector<int>({-3, 40, 5}));
  row = {};
  EXPECT_EQ(Foreign<Managed>::num_deleted, 1);
}

TEST(FromDlpackTest, SharesTheMemoryUntilTheLastViewEnds) {
  expect_shared_until_the_last_view_ends<DLManagedTensorVersioned>();
  expect_shared_until_the_last_view_ends<DLManagedTensor>();
}

TEST(FromDlpackTest, TakesStridesOffsetsAndMissingStrides) {
  DLManagedTensorVersioned* theirs = Versioned::make();
  theirs->dl_tensor.strides[0] = 1;  // a transpose of (3, 2), from the second element
  theirs->dl_tensor.strides[1] = 2;
  theirs->dl_tensor.byte_offset = sizeof(std::int32_t);
  theirs->dl_tensor.shape[1] = 2;
  EXPECT_EQ(from_dlpack(theirs).to_vector<int>(), std::vector<int>({1, 3, 2, 4}));

  theirs = Versioned::make();
  theirs->dl_tensor.strides[0] = 0;  // a row that repeats
  EXPECT_EQ(from_dlpack(theirs).to_vector<int>(), std::vector<int>({0, 1, 2, 0, 1, 2}));

  theirs = Versioned::make();
  theirs->dl_tensor.strides = nullptr;
  EXPECT_TRUE(from_dlpack(theirs).is_contiguous());

  theirs = Versioned::make();
  theirs->dl_tensor.ndim = 0;
  theirs->dl_tensor.shape = theirs->dl_tensor.strides = nullptr;
  EXPECT_EQ(from_dlpack(theirs).item<int>(), 0);

  theirs = Versioned::make();
  theirs->dl_tensor.shape[0] = 0;
  theirs->dl_tensor.data = nullptr;
  EXPECT_EQ(from_dlpack(theirs).shape(), Shape({0, 3}));
  EXPECT_EQ(Versioned::num_deleted, 1);
}

TEST(FromDlpackTest, CopiesWhatMustNotBeWritten) {
  DLManagedTensorVersioned* const theirs = Versioned::make();
  theirs->flags = dlpack::kReadOnly;
  theirs->dl_tensor.strides[0] = 1;
  theirs->dl_tensor.strides[1] = 2;
  const Tensor x = from_dlpack(theirs);
  EXPECT_EQ(Versioned::num_deleted, 1);
  x.data<std::int32_t>()[0] = 7;
  EXPECT_EQ(x.to_vector<int>(), std::vector<int>({7, 2, 4, 1, 3, 5}));
}

// A refused tensor is still its owner's: nothing was deleted.
template <class ErrorType, class Change>
void expect_refused(Change change, const char* text) {
  DLManagedTensorVersioned* const theirs = Versioned::make();
  change(*theirs);
  expect_throws<ErrorType>([&] { from_dlpack(theirs); }, text);
  EXPECT_EQ(Versioned::num_deleted, 0);
  theirs->deleter(theirs);
}

TEST(FromDlpackTest, RefusesWhatItCannotHold) {
  using Theirs = DLManagedTensorVersioned;
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max() / 2;
  expect_refused<DataError>([](Theirs& t) { t.version = {2, 0}; }, "must be 1; got 2.0");
  expect_refused<DTypeError>(
      [](Theirs& t) {
        t.dl_tensor.dtype = {dlpack::kInt, 16, 1};
      },
      "got code 0, 16 bits, 1 lanes");
  expect_refused<DTypeError>([](Theirs& t) { t.dl_tensor.dtype.lanes = 4; }, "4 lanes");
  expect_refused<ShapeError>([](Theirs& t) { t.dl_tensor.ndim = 9; }, "0 to 8 axes; got 9");
  expect_refused<ShapeError>([](Theirs& t) { t.dl_tensor.ndim = -1; }, "got -1");
  expect_refused<ShapeError>([](Theirs& t) { t.dl_tensor.shape[0] = -2; }, "negative");
  expect_refused<ShapeError>([](Theirs& t) { t.dl_tensor.shape[0] = kHuge; }, "63 bits");
  expect_refused<ShapeError>([](Theirs& t) { t.dl_tensor.strides[0] = kHuge; }, "63 bits");
  expect_refused<ValueError>([](Theirs& t) { t.dl_tensor.strides[1] = -1; }, "not be negative");
  expect_refused<ValueError>([](Theirs& t) { t.dl_tensor.byte_offset = 2; },
                             "aligned to its elements of 4 bytes");
  expect_refused<DeviceError>(
      [](Theirs& t) {
        t.dl_tensor.device = {dlpack::kCuda, 0};
      },
      "GPUs are simulated; got device type 2, number 0");
  expect_refused<DeviceError>([](Theirs& t) { t.dl_tensor.device = {8, 1}; }, "type 8");
  expect_refused<DataError>([](Theirs& t) { t.dl_tensor.data = nullptr; }, "must have memory");
  expect_refused<DataError>([](Theirs& t) { t.dl_tensor.shape = nullptr; }, "must have a shape");
  expect_throws<DataError>([] { from_dlpack(static_cast<DLManagedTensor*>(nullptr)); }, "got null");
}

// NumPy and PyTorch take every byte but 0 for true. As a bool of C++ it would be undefined; a sum
// over 255 and 255 was 510.
TEST(FromDlpackTest, RefusesTruthValuesOtherThan0And1) {
  const auto as_bool = [](DLManagedTensorVersioned& t, std::int32_t first) {
    t.dl_tensor.dtype = {dlpack::kBool, 8, 1};
    *static_cast<std::int32_t*>(t.dl_tensor.data) = first;  // four truth values; the next two: 1, 0
  };
  const char* const kText = "truth values must be the bytes 0 and 1; got 255";
  expect_refused<DataError>([&](auto& t) { as_bool(t, 0xff00); }, kText);
  expect_refused<DataError>(
      [&](auto& t) {
        as_bool(t, 0xff00);
        t.flags = dlpack::kReadOnly;
      },
      kText);
  DLManagedTensorVersioned* const theirs = Versioned::make();
  as_bool(*theirs, 0x0100ff01);
  theirs->dl_tensor.strides[0] = 3;
  theirs->dl_tensor.strides[1] = 2;  // byte 1 lies between the elements 0, 2, 3 and 5
  theirs->dl_tensor.shape[1] = 2;
  EXPECT_EQ(from_dlpack(theirs).to_vector<int>(), std::vector<int>({1, 0, 1, 0}));
}

TEST(ToDlpackTest, SharesTheMemoryUntilTheOthersDelete) {
  Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  DLManagedTensorVersioned* const ours = to_dlpack(view::transpose(x, 0, 1));
  EXPECT_EQ(ours->version.major, 1u);
  EXPECT_EQ(ours->flags, 0u);
  const DLTensor& shared = ours->dl_tensor;
  ASSERT_EQ(shared.ndim, 2);
  EXPECT_EQ(std::vector(shared.shape, shared.shape + 2), std::vector<std::int64_t>({3, 2}));
  EXPECT_EQ(std::vector(shared.strides, shared.strides + 2), std::vector<std::int64_t>({1, 3}));
  EXPECT_EQ(shared.data, x.raw_data());
  x = {};
  EXPECT_EQ(static_cast<std::int64_t*>(shared.data)[5], 6);
  ours->deleter(ours);
}

TEST(ToDlpackTest, EveryDTypeComesBackWithItsBits) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const Tensor x = ones({2, 3}, {.dtype = static_cast<DType>(i)});
    for (const Tensor& y : {from_dlpack(to_dlpack(x)), from_dlpack(to_dlpack_unversioned(x))}) {
      EXPECT_EQ(y.raw_data(), x.raw_data());
      testing::expect_same_bits(y, x);
    }
  }
  EXPECT_EQ(from_dlpack(to_dlpack(empty({0, 4}))).shape(), Shape({0, 4}));
  EXPECT_EQ(from_dlpack(to_dlpack(scalar_tensor(2.5))).item(), 2.5);
}

TEST(ToDlpackTest, RefusesGradientsAndSimulatedGpus) {
  expect_throws<AutogradError>([] { to_dlpack(ones({2}, {.requires_grad = true})); }, "detach()");
  expect_throws<DeviceError>([] { to_dlpack(ones({2}, {.device = "cuda"})); },
                             "GPUs of this build are simulated; got cuda:0");
}

TEST(DlpackTest, TheConsumerKeepsTheMemoryThatATensorLeaves) {
  const Tensor x = full({3}, 1);
  DLManagedTensor* const shared = to_dlpack_unversioned(x);
  x.set_data(full({3}, 2));  // as an optimizer's arena does
  const Tensor reused = full({3}, 7);
  EXPECT_EQ(static_cast<const float*>(shared->dl_tensor.data)[2], 1);
  shared->deleter(shared);
}

}  // namespace
}  // namespace ringrad
