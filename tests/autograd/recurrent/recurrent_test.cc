#include "ringrad/autograd/recurrent/recurrent.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/hooks.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;

constexpr Cell kCells[] = {Cell::tanh, Cell::relu, Cell::gru, Cell::lstm};

// Input, weight, bias and initial states of a problem. Weights are small, so that rounding errors
// do not grow from step to step.
std::vector<Tensor> problem(Random& random, Cell cell, std::int64_t steps, std::int64_t batch,
                            std::int64_t size, DType dtype, bool bias = true) {
  const std::int64_t width = kernels::num_gates(cell) * size;
  std::vector<Tensor> made{random.tensor({steps, batch, width}, dtype),
                           random.tensor({width, size}, dtype) * (1.0 / static_cast<double>(size)),
                           bias ? random.tensor({width}, dtype) : Tensor(),
                           random.tensor({batch, size}, dtype),
                           cell == Cell::lstm ? random.tensor({batch, size}, dtype) : Tensor()};
  return made;
}

RecurrentOutput run(Cell cell, const std::vector<Tensor>& in, bool reverse = false) {
  return recurrent(cell, in[0], in[1], in[2], in[3], in[4], reverse);
}

// The specification, in double: one unit after the other.
std::vector<double> reference(Cell cell, const std::vector<Tensor>& in, bool reverse) {
  const std::int64_t steps = in[0].shape()[0], batch = in[0].shape()[1], width = in[0].shape()[2],
                     size = in[3].shape()[1];
  const auto values = [](const Tensor& x) { return x.to_vector<double>(); };
  const auto x = values(in[0]), weight = values(in[1]);
  const auto bias =
      in[2].defined() ? values(in[2]) : std::vector<double>(static_cast<std::size_t>(width));
  auto hidden = values(in[3]);
  auto cells = in[4].defined() ? values(in[4]) : std::vector<double>();
  std::vector<double> output(static_cast<std::size_t>(steps * batch * size));
  const auto sigmoid_of = [](double value) { return 1 / (1 + std::exp(-value)); };
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t t = reverse ? steps - 1 - i : i;
    const auto before = hidden;
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t j = 0; j < size; ++j) {
        const auto own = [&](std::int64_t k) {
          return x[at((t * batch + b) * width + k * size + j)];
        };
        const auto fed = [&](std::int64_t k) {
          double sum = bias[at(k * size + j)];
          for (std::int64_t u = 0; u < size; ++u)
            sum += weight[at((k * size + j) * size + u)] * before[at(b * size + u)];
          return sum;
        };
        double& h = hidden[at(b * size + j)];
        if (cell == Cell::tanh) h = std::tanh(own(0) + fed(0));
        if (cell == Cell::relu) h = std::max(0., own(0) + fed(0));
        if (cell == Cell::lstm) {
          double& c = cells[at(b * size + j)];
          c = sigmoid_of(own(1) + fed(1)) * c +
              sigmoid_of(own(0) + fed(0)) * std::tanh(own(2) + fed(2));
          h = sigmoid_of(own(3) + fed(3)) * std::tanh(c);
        }
        if (cell == Cell::gru) {
          const double update = sigmoid_of(own(1) + fed(1));
          const double fresh = std::tanh(own(2) + sigmoid_of(own(0) + fed(0)) * fed(2));
          h = (1 - update) * fresh + update * h;
        }
        output[at((t * batch + b) * size + j)] = h;
      }
  }
  return output;
}

TEST(RecurrentTest, AgreesWithTheFormulaOnEveryDtype) {
  const std::uint64_t num_seeds = default_device().is_cpu() ? 64 : 16;
  for (std::uint64_t seed = 0; seed < num_seeds; ++seed) {
    Random random(seed);
    const testing::Team team(1 + static_cast<int>(seed % 2));
    const Cell cell = kCells[seed % 4];
    const DType dtype =
        std::array{DType::float32, DType::float64, DType::float16, DType::bfloat16}[seed / 4 % 4];
    const bool reverse = random.chance(0.5);
    const auto in = problem(random, cell, random.integer(1, 4), random.integer(1, 5),
                            random.integer(1, 40), dtype, random.chance(0.7));
    // Errors of a step go through all later ones.
    expect_close(run(cell, in, reverse).output, reference(cell, in, reverse), 256);
  }
}

TEST(RecurrentTest, TheLastStatesContinueTheSequence) {
  for (const Cell cell : kCells)
    for (const bool reverse : {false, true}) {
      Random random(1);
      const auto in = problem(random, cell, 5, 3, 4, DType::float32);
      const RecurrentOutput whole = run(cell, in, reverse);
      auto first = in, second = in;
      first[0] = reverse ? slice(in[0], 0, 2, 5) : slice(in[0], 0, 0, 3);
      const RecurrentOutput half = run(cell, first, reverse);
      second[0] = reverse ? slice(in[0], 0, 0, 2) : slice(in[0], 0, 3, 5);
      second[3] = half.last_hidden;
      second[4] = half.last_cell;
      const RecurrentOutput rest = run(cell, second, reverse);
      expect_same_bits(concatenate(reverse ? std::vector{rest.output, half.output}
                                           : std::vector{half.output, rest.output}),
                       whole.output);
      expect_same_bits(rest.last_hidden, whole.last_hidden);
      if (cell == Cell::lstm) expect_same_bits(rest.last_cell, whole.last_cell);
    }
}

// By everything that goes in, of the output, of the last states, and of both.
TEST(RecurrentTest, GradientsAgreeWithDifferences) {
  for (const Cell cell : kCells)
    for (const bool reverse : {false, true}) {
      SCOPED_TRACE(concat("cell ", static_cast<int>(cell), " reverse ", reverse));
      Random random(5);
      auto in = problem(random, cell, 3, 2, 3, DType::float64);
      if (!in[4].defined()) in.pop_back();
      for (const Tensor& x : in) x.set_requires_grad();
      const auto with = [&](auto choose) {
        return [=](const std::vector<Tensor>& x) {
          return choose(
              recurrent(cell, x[0], x[1], x[2], x[3], x.size() > 4 ? x[4] : Tensor(), reverse));
        };
      };
      const auto output = with([](const RecurrentOutput& y) { return y.output; });
      const auto last = with([](const RecurrentOutput& y) {
        return y.last_cell.defined() ? y.last_cell : y.last_hidden;
      });
      const auto both = with([](const RecurrentOutput& y) {
        const Tensor sums = sum(square(y.output), {0}) * y.last_hidden;
        return y.last_cell.defined() ? sums + y.last_cell : sums;
      });
      EXPECT_EQ(gradient_check(both, in), "");
      if (default_device().is_cuda()) continue;  // GPUs may be simulated
      EXPECT_EQ(gradient_check(output, in), "");
      EXPECT_EQ(gradient_check(last, in), "");
      EXPECT_EQ(gradient_gradient_check(both, in), "");
    }
}

// An initial state may depend on the same tensors as the input.
TEST(RecurrentTest, SecondDerivativesKeepThePathsApart) {
  Random random(6);
  auto in = problem(random, Cell::lstm, 2, 2, 2, DType::float64);
  if (default_device().is_cuda()) GTEST_SKIP() << "GPUs may be simulated";
  const Tensor x = random.tensor({2, 2, 8}, DType::float64).set_requires_grad();
  const auto f = [&](const std::vector<Tensor>& leaves) {
    const Tensor input = leaves[0] * 2;
    const Tensor state = slice(select(input, 0, 0), 1, 0, 2);
    return recurrent(Cell::lstm, input, in[1], in[2], state, state).output;
  };
  EXPECT_EQ(gradient_check(f, {x}), "");
  EXPECT_EQ(gradient_gradient_check(f, {x}), "");
}

// The second sequence starts from the last states of the first, which depend on its weight as well.
TEST(RecurrentTest, RecordedGradientsOfAChainEqualTheOthers) {
  for (const Cell cell : kCells) {
    Random random(11);
    auto in = problem(random, cell, 3, 2, 3, DType::float64);
    const Tensor weight = in[1].set_requires_grad();
    int calls = 0;
    const auto gradient = [&](bool create_graph) {
      auto second = in;
      const RecurrentOutput first = run(cell, in);
      register_hook(first.last_hidden, [&](const Tensor&) {
        ++calls;
        return Tensor();
      });
      second[3] = first.last_hidden;
      second[4] = first.last_cell;
      return grad(sum(square(run(cell, second).output)), weight, {},
                  {.create_graph = create_graph});
    };
    expect_close(gradient(true), gradient(false), 64);
    EXPECT_EQ(calls, 2);
  }
}

TEST(RecurrentTest, StridedInputsAndAutocastWork) {
  Random random(7);
  auto in = problem(random, Cell::gru, 4, 3, 5, DType::float32);
  auto strided = in;
  for (Tensor& x : strided)
    if (x.defined()) x = random.strided(x);
  expect_same_bits(run(Cell::gru, strided).output, run(Cell::gru, in).output);
  in[1].set_requires_grad();
  const Autocast mixed(DType::bfloat16);
  const RecurrentOutput y = run(Cell::gru, in);
  EXPECT_EQ(y.output.dtype(), DType::bfloat16);
  sum(y.output).backward();
  EXPECT_EQ(in[1].grad().dtype(), DType::float32);
}

TEST(RecurrentTest, EmptyBatchesAndSequencesHaveNoOutput) {
  Random random(8);
  EXPECT_EQ(run(Cell::lstm, problem(random, Cell::lstm, 3, 0, 2, DType::float32)).output.shape(),
            Shape({3, 0, 2}));
  const auto in = problem(random, Cell::lstm, 0, 2, 2, DType::float32);
  const RecurrentOutput y = run(Cell::lstm, in);
  EXPECT_EQ(y.output.shape(), Shape({0, 2, 2}));
  expect_same_bits(y.last_cell, in[4]);
}

TEST(RecurrentTest, NoticesAnOutputThatWasChanged) {
  Random random(9);
  const auto in = problem(random, Cell::lstm, 3, 2, 2, DType::float32);
  in[1].set_requires_grad();
  const RecurrentOutput y = run(Cell::lstm, in);
  zero_(y.output.detach());
  expect_throws<AutogradError>([&] { sum(y.output).backward(); }, "changed");
}

TEST(RecurrentTest, ThrowsForArgumentsThatDoNotFit) {
  Random random(10);
  const auto in = problem(random, Cell::lstm, 3, 2, 2, DType::float32);
  const auto with = [&](std::size_t i, const Tensor& x) {
    auto changed = in;
    changed[i] = x;
    return [changed] { run(Cell::lstm, changed); };
  };
  expect_throws<ShapeError>(with(0, ones({3, 2, 7})), "input must be (T, B, 4 H)");
  expect_throws<ShapeError>(with(1, ones({2, 8})), "weight must be (8, 2)");
  expect_throws<ShapeError>(with(2, ones({7})), "bias must be (8,)");
  expect_throws<ShapeError>(with(3, ones({3, 2})), "hidden state must be (2, 2)");
  expect_throws<DTypeError>(with(3, ones({2, 2}, {.dtype = DType::float64})), "float64");
  expect_throws<ValueError>(with(4, Tensor()), "got none");
}

}  // namespace
}  // namespace ringrad
