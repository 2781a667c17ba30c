// Compares values and gradients of the four collectives with their definitions, on the CPU and on
// GPUs.

#include "ringrad/parallel/train/tensor/differentiable_collectives.h"

#include <gtest/gtest.h>

#include <functional>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/parallel/comm/record/flight_recorder.h"
#include "ringrad/tests/parallel/train/ranks_on_devices.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::expect_throws;
using testing::run_ranks_on_devices;

constexpr int kWorldSizes[] = {1, 2, 4};

// Small whole numbers, all of whose sums are exact; other seeds give other numbers.
Tensor numbers(const Shape& shape, std::uint64_t seed) {
  Generator generator(seed);
  return to(randint(-8, 8, shape, generator), DType::float32);
}

Tensor sum_over_ranks(const std::function<Tensor(std::uint64_t rank)>& term, int n) {
  Tensor total = term(0);
  for (int r = 1; r < n; ++r) total = total + term(static_cast<std::uint64_t>(r));
  return total;
}

TEST(DifferentiableCollectivesTest, CopiesForwardAndSumsBackward) {
  for (const int n : kWorldSizes)
    run_ranks_on_devices(n, [n](Communicator& comm) {
      const Tensor x = numbers({3, 5}, 100).set_requires_grad();
      const auto grad = [](std::uint64_t rank) { return numbers({3, 5}, rank); };
      const Tensor y = copy_to_ranks(x, comm);
      expect_same_bits(y.detach(), x.detach());
      y.backward(grad(static_cast<std::uint64_t>(comm.rank())));
      expect_same_bits(x.grad(), sum_over_ranks(grad, n));
    });
}

TEST(DifferentiableCollectivesTest, SumsForwardAndCopiesBackward) {
  for (const int n : kWorldSizes)
    run_ranks_on_devices(n, [n](Communicator& comm) {
      // Columns of a larger matrix: not contiguous.
      const auto term = [](std::uint64_t rank) { return slice(numbers({3, 8}, rank), 1, 2, 7); };
      const Tensor x = term(static_cast<std::uint64_t>(comm.rank())).set_requires_grad(),
                   grad = numbers({3, 5}, 100);
      const Tensor y = reduce_from_ranks(x, comm);
      expect_same_bits(y.detach(), sum_over_ranks(term, n));
      expect_same_bits(x.detach(), term(static_cast<std::uint64_t>(comm.rank())));  // not touched
      y.backward(grad);
      expect_same_bits(x.grad(), grad);
    });
}

TEST(DifferentiableCollectivesTest, CutsForwardAndJoinsBackwardAlongAnyAxis) {
  for (const int n : kWorldSizes)
    run_ranks_on_devices(n, [n](Communicator& comm) {
      for (const std::int64_t axis : {0, 1, 2, -1}) {
        Shape shape{2, 3, 5};
        shape[static_cast<int>((axis + 3) % 3)] *= n;
        const Tensor whole = numbers(shape, 100).set_requires_grad(), grad = numbers(shape, 101);
        const auto own = [&](const Tensor& x) {
          return chunk(x.detach(), n, axis)[static_cast<std::size_t>(comm.rank())];
        };
        const Tensor part = scatter_to_ranks(whole, comm, axis);
        expect_same_bits(part.detach(), own(whole));
        part.backward(own(grad));
        expect_same_bits(whole.grad(), grad);
      }
    });
}

TEST(DifferentiableCollectivesTest, JoinsForwardAndCutsBackwardAlongAnyAxis) {
  for (const int n : kWorldSizes)
    run_ranks_on_devices(n, [n](Communicator& comm) {
      for (const std::int64_t axis : {0, 1, 2, -1}) {
        Shape shape{2, 3, 5};
        shape[static_cast<int>((axis + 3) % 3)] *= n;
        const Tensor whole = numbers(shape, 100), grad = numbers(shape, 101);
        const auto own = [&](const Tensor& x) {
          return chunk(x, n, axis)[static_cast<std::size_t>(comm.rank())];
        };
        const Tensor part = own(whole).set_requires_grad();
        const Tensor y = gather_from_ranks(part, comm, axis);
        expect_same_bits(y.detach(), whole);
        y.backward(grad);
        expect_same_bits(part.grad(), own(grad));
      }
    });
}

// Two layers, split and joined in every way, of whole parameters that all ranks update alike.
Tensor split_layers(const std::vector<Tensor>& inputs, Communicator& comm) {
  const Tensor &x = inputs[0], &w = inputs[1], &b = inputs[2], &v = inputs[3];
  const Tensor hidden = tanh(
      linear(copy_to_ranks(x, comm), scatter_to_ranks(w, comm, 0), scatter_to_ranks(b, comm, 0)));
  const Tensor again = scatter_to_ranks(gather_from_ranks(hidden, comm), comm);
  return reduce_from_ranks(linear(hidden * again, scatter_to_ranks(v, comm, 1)), comm);
}

TEST(DifferentiableCollectivesTest, GradientsOfAnyOrderAgreeWithDifferences) {
  for (const int n : kWorldSizes)
    run_ranks(n, [](Communicator& comm) {
      testing::Random random(3);
      std::vector<Tensor> inputs;
      for (const Shape& shape : {Shape{2, 3}, Shape{4, 3}, Shape{4}, Shape{2, 4}})
        inputs.push_back(random.tensor(shape, DType::float64).set_requires_grad());
      const auto layers = [&](const std::vector<Tensor>& all) { return split_layers(all, comm); };
      EXPECT_EQ(gradient_check(layers, inputs), "");
      EXPECT_EQ(gradient_gradient_check(layers, inputs), "");
    });
}

// Branches are recorded in the same order on all ranks, and so run backward in the same order.
TEST(DifferentiableCollectivesTest, BranchesMeetInBackward) {
  run_ranks(4, [](Communicator& comm) {
    const Tensor x = numbers({4, 4}, 100).set_requires_grad();
    const Tensor rows = copy_to_ranks(slice(x, 0, 0, 1), comm), half = scatter_to_ranks(x, comm, 1),
                 all = copy_to_ranks(x, comm);
    (sum(all) + sum(rows) + sum(half * half)).backward();
    const Tensor expected = full({4, 4}, 4) + 2 * x.detach();
    for (int i = 0; i < 4; ++i) expected.data<float>()[i] += 4;
    expect_same_bits(x.grad(), expected);
  });
}

TEST(DifferentiableCollectivesTest, CallsNobodyForWhatNeedsNoGradient) {
  run_ranks(2, [](Communicator& comm) {
    const Tensor x = ones({2, 2}), leaf = ones({2, 2}).set_requires_grad();
    EXPECT_TRUE(copy_to_ranks(x, comm).is(x));
    {
      const NoGradGuard guard;
      EXPECT_TRUE(copy_to_ranks(leaf, comm).is(leaf));
      EXPECT_FALSE(scatter_to_ranks(leaf, comm).requires_grad());
    }
    EXPECT_TRUE(comm.flight().records().empty());
    EXPECT_FALSE(gather_from_ranks(x, comm).requires_grad());
    EXPECT_EQ(comm.flight().records().size(), 1U);
  });
}

TEST(DifferentiableCollectivesTest, AGroupOfOneReturnsTheTensor) {
  run_ranks(1, [](Communicator& comm) {
    const Tensor x = ones({2, 2}).set_requires_grad();
    for (const Tensor& y : {copy_to_ranks(x, comm), reduce_from_ranks(x, comm),
                            gather_from_ranks(x, comm), scatter_to_ranks(x, comm)})
      EXPECT_TRUE(y.is(x));
  });
}

TEST(DifferentiableCollectivesTest, SixteenBitTermsAreSummedInFloat32) {
  run_ranks(4, [](Communicator& comm) {
    const DType dtype = DType::bfloat16;  // 256 + 1 = 256 in it
    const Tensor x = full({1}, comm.rank() == 0 ? 256 : 1, {.dtype = dtype});
    expect_same_bits(reduce_from_ranks(x, comm), full({1}, 260, {.dtype = dtype}));
  });
}

// --- Errors ---

TEST(DifferentiableCollectivesTest, SaysWhatAnAxisMustBe) {
  run_ranks(2, [](Communicator& comm) {
    expect_throws<ShapeError>(
        [&] {
          scatter_to_ranks(ones({4, 3}), comm);
        },
        "scatter_to_ranks: the axis must be a multiple of the ranks; got axis -1 of (4, 3) and 2");
    expect_throws<ShapeError>([&] { scatter_to_ranks(ones({4}), comm, 1); }, "scatter_to_ranks");
    expect_throws<ShapeError>([&] { gather_from_ranks(ones({4}), comm, -2); }, "gather_from_ranks");
    comm.barrier();  // no rank has called another
  });
}

TEST(DifferentiableCollectivesTest, RanksThatDifferEndInAnError) {
  run_ranks(2, [](Communicator& comm) {
    const auto group = comm.split(0);
    const Tensor x = ones({2 + 2 * comm.rank()}).set_requires_grad();
    const Tensor y = copy_to_ranks(x, *group);
    expect_throws<CollectiveError>([&] { sum(y).backward(); }, "all ranks must make the same call");
  });
}

}  // namespace
}  // namespace ringrad
