#include "ringrad/autograd/loss/ctc_loss.h"

#include <cmath>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/loss/softmax.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Equal neighbours merged, blanks dropped.
std::vector<std::int64_t> spelled(const std::vector<std::int64_t>& path, std::int64_t blank) {
  std::vector<std::int64_t> labels;
  for (std::size_t t = 0; t < path.size(); ++t)
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) labels.push_back(path[t]);
  return labels;
}

// The loss of one example by its definition, over all C^T paths. x[t][c]
double loss_by_paths(const std::vector<std::vector<double>>& x,
                     const std::vector<std::int64_t>& target, std::int64_t blank) {
  const auto C = static_cast<std::int64_t>(x.empty() ? 1 : x[0].size());
  double total = 0;
  std::vector<std::int64_t> path(x.size(), 0);
  for (;;) {
    double log_probability = 0;
    for (std::size_t t = 0; t < path.size(); ++t)
      log_probability += x[t][static_cast<std::size_t>(path[t])];
    if (spelled(path, blank) == target) total += std::exp(log_probability);
    std::size_t t = 0;
    while (t < path.size() && ++path[t] == C) path[t++] = 0;
    if (t == path.size()) return -std::log(total);
  }
}

struct Problem {
  std::vector<std::vector<std::int64_t>> targets;
  std::vector<std::int64_t> frames;
  std::int64_t blank;
};

const Problem kProblems[] = {
    {{{1}, {1, 2}, {2, 2}}, {4, 5, 3}, 0},
    {{{0, 1, 0}, {}, {1, 1}}, {5, 2, 5}, 2},
};

Tensor vector_of(const std::vector<std::int64_t>& values) { return tensor(values); }

// (B, S), padded by a number that is no class.
Tensor padded(const std::vector<std::vector<std::int64_t>>& targets) {
  std::vector<std::int64_t> values;
  for (const auto& target : targets)
    for (std::size_t s = 0; s < 3; ++s) values.push_back(s < target.size() ? target[s] : -7);
  return reshape(vector_of(values), {static_cast<std::int64_t>(targets.size()), 3});
}

Tensor lengths_of(const Problem& problem) {
  std::vector<std::int64_t> lengths;
  for (const auto& target : problem.targets)
    lengths.push_back(static_cast<std::int64_t>(target.size()));
  return vector_of(lengths);
}

Tensor loss_of(const Problem& problem, const Tensor& x, Reduction reduction = Reduction::none,
               bool zero_infinity = false) {
  return ctc_loss(x, padded(problem.targets), vector_of(problem.frames), lengths_of(problem),
                  {.blank = problem.blank, .zero_infinity = zero_infinity, .reduction = reduction});
}

TEST(CTCLossTest, IsMinusTheLogarithmOfTheSumOverAllPaths) {
  Random random(1);
  for (const Problem& problem : kProblems)
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
      const Tensor x = log_softmax(random.tensor({5, 3, 3}, dtype), -1);
      const std::vector<double> values = x.to_vector<double>();
      std::vector<double> expected;
      for (std::size_t b = 0; b < 3; ++b) {
        std::vector<std::vector<double>> frames;
        for (std::size_t t = 0; t < static_cast<std::size_t>(problem.frames[b]); ++t)
          frames.push_back({values.begin() + static_cast<std::ptrdiff_t>((t * 3 + b) * 3),
                            values.begin() + static_cast<std::ptrdiff_t>((t * 3 + b) * 3 + 3)});
        expected.push_back(loss_by_paths(frames, problem.targets[b], problem.blank));
      }
      expect_close(loss_of(problem, x), expected, 16);
      expect_close(loss_of(problem, random.strided(x), Reduction::sum),
                   {expected[0] + expected[1] + expected[2]}, 16);
      double mean = 0;
      for (std::size_t b = 0; b < 3; ++b)
        mean +=
            expected[b] / std::max<double>(1, static_cast<double>(problem.targets[b].size())) / 3;
      expect_close(loss_of(problem, x, Reduction::mean), {mean}, 16);
    }
}

TEST(CTCLossTest, GradientsAgreeWithDifferences) {
  Random random(2);
  for (const Problem& problem : kProblems)
    for (const Reduction reduction : {Reduction::none, Reduction::mean}) {
      const Tensor x = random.tensor({5, 3, 3}, DType::float64).set_requires_grad();
      const DifferentiableFunction of_scores = [&](const std::vector<Tensor>& in) {
        return loss_of(problem, log_softmax(in[0], -1), reduction);
      };
      const DifferentiableFunction of_logarithms = [&](const std::vector<Tensor>& in) {
        return loss_of(problem, in[0], reduction);
      };
      EXPECT_EQ(gradient_check(of_scores, {x}), "");
      EXPECT_EQ(gradient_check(of_logarithms, {x}), "");
    }
}

// "1 1" needs a blank between its labels, so three frames.
TEST(CTCLossTest, TooFewFramesMakeTheLossInfinite) {
  const Problem problem{{{1, 1}, {1}}, {2, 2}, 0};
  const Tensor x = log_softmax(zeros({2, 2, 2}), -1).detach().set_requires_grad();
  expect_close(loss_of(problem, x), {kInfinity, -std::log(0.75)}, 16);
  const Tensor loss = loss_of(problem, x, Reduction::sum, /*zero_infinity=*/true);
  expect_close(loss, {-std::log(0.75)}, 16);
  // Of the paths 01, 10 and 11, two are at class 1 in each frame.
  const double third = -1. / 3;
  expect_close(grad(loss, x), {0, 0, third, 2 * third, 0, 0, third, 2 * third}, 16);
}

TEST(CTCLossTest, LossesOfFloat16MayLeaveItsRangeBeforeTheMean) {
  const Problem problem{{{1, 1}}, {4}, 0};
  const Tensor x = full({4, 1, 2}, -20'000, {.dtype = DType::float16});
  const Tensor loss = ctc_loss(x, padded(problem.targets), vector_of(problem.frames),
                               lengths_of(problem), {.reduction = Reduction::mean});
  expect_close(loss, {40'000});
  EXPECT_EQ(loss.dtype(), DType::float16);
}

// Wherever it is: at a blank, at a label, in the first frame or in the last.
TEST(CTCLossTest, NanSpreadsFromAnyPlace) {
  const Problem problem{{{1, 2}, {2}}, {4, 4}, 0};
  for (const std::int64_t frame : {0, 1, 3})
    for (const std::int64_t label : {0, 1, 2}) {
      std::vector<float> values(24, -std::log(3.f));
      values[static_cast<std::size_t>(6 * frame + label)] = std::nanf("");  // of the first example
      const auto losses = loss_of(problem, reshape(tensor(values), {4, 2, 3})).to_vector<double>();
      const bool matters = !(frame == 0 && label == 2) && !(frame == 3 && label == 1);
      EXPECT_EQ(std::isnan(losses[0]), matters) << frame << ' ' << label;
      EXPECT_TRUE(std::isfinite(losses[1]));
    }
}

TEST(CTCLossTest, NothingSpellsOnlyTheEmptyTarget) {
  const Problem problem{{{}, {1}}, {0, 0}, 0};
  expect_close(loss_of(problem, zeros({0, 2, 2})), {0, kInfinity});
}

TEST(CTCLossTest, ItsGradientCanBeUsedButNotDifferentiated) {
  Random random(3);
  const Problem& problem = kProblems[0];
  const Tensor x = random.tensor({5, 3, 3}).set_requires_grad();
  const Tensor gradient = grad(loss_of(problem, x, Reduction::sum), x, {}, {.create_graph = true});
  expect_close(sum(gradient), {-12}, 64);  // one class per frame
  expect_throws<AutogradError>([&] { grad(sum(gradient), x); },
                               "ctc_loss: its gradient has no derivative here");
}

TEST(CTCLossTest, ThrowsAtTheCallersLine) {
  const Tensor x = zeros({4, 1, 3}), targets = tensor({{1, 2}}), four = tensor({4}),
               two = tensor({2});
  EXPECT_NO_THROW(ctc_loss(x, targets, four, two));
  expect_throws<ShapeError>(
      [&] {
        ctc_loss(zeros({4, 3}), targets, four, two);
      },
      "ctc_loss: log_probabilities must be (T, B, C); got (4, 3)");
  expect_throws<ShapeError>(
      [&] {
        ctc_loss(x, tensor({1, 2}), four, two);
      },
      "ctc_loss: targets must be (B, S), and lengths (B)");
  expect_throws<DTypeError>(
      [&] {
        ctc_loss(x, zeros({1, 2}), four, two);
      },
      "ctc_loss: targets and lengths must be int32 or int64; got float32");
  expect_throws<ValueError>([&] { ctc_loss(x, targets, tensor({5}), two); },
                            "ctc_loss: input_lengths must be in [0, 4]; got 5");
  expect_throws<ValueError>([&] { ctc_loss(x, targets, four, tensor({3})); },
                            "ctc_loss: target_lengths must be in [0, 2]; got 3");
  expect_throws<IndexError>(
      [&] {
        ctc_loss(x, tensor({{1, 3}}), four, two);
      },
      "targets must be classes in [0, 3) other than blank 0; got 3");
  expect_throws<IndexError>([&] { ctc_loss(x, targets, four, two, {.blank = 2}); },
                            "other than blank 2; got 2");
  expect_throws<IndexError>([&] { ctc_loss(x, targets, four, two, {.blank = 3}); },
                            "ctc_loss: blank must be one of 3 classes; got 3");
}

}  // namespace
}  // namespace ringrad
