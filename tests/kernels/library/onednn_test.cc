// The results of oneDNN must not depend on the teams that ran the same shapes before.

#include <omp.h>

#include <functional>
#include <thread>
#include <vector>

#include "ringrad/kernels/convolution/convolution.h"
#include "ringrad/kernels/matmul/matmul.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::Random;
using ringrad::testing::Team;

constexpr double kSlack = 2000;  // up to 726 terms, in any order; a missing row far exceeds it

struct Operation {
  const char* name;
  std::function<Tensor()> run;
};

// Large enough that two threads share the work.
std::vector<Operation> operations() {
  Random random(1);
  const auto normal = [&](const Shape& shape) { return random.tensor(shape, DType::float32); };
  const Tensor a = normal({150, 301}), b = normal({301, 133});
  const Tensor batch_a = normal({6, 40, 70}), batch_b = normal({6, 70, 50});
  const Tensor x = normal({6, 12, 21, 21}), weight = normal({20, 12, 3, 3});
  const Tensor gradient = normal({6, 20, 11, 11});
  const Conv2dOptions options{.stride = {2, 2}, .padding = {1, 1}};
  return {
      {"matmul", [=] { return matmul(a, b); }},
      {"batched matmul", [=] { return matmul(batch_a, batch_b); }},
      {"conv2d", [=] { return convolution(x, weight, {}, options); }},
      {"conv2d_backward_input",
       [=] { return convolution_backward_input(gradient, weight, x.shape(), options); }},
      {"conv2d_backward_weight",
       [=] {
         return convolution_backward_weight(gradient, x, weight.shape(), false, options).weight;
       }},
  };
}

// Computes on a new thread, which has no plans yet, with a team of one.
Tensor computed_alone(const Operation& operation) {
  Tensor result;
  std::thread([&] {
    const Team team(1);
    result = operation.run();
  }).join();
  return result;
}

TEST(OnednnTest, TeamsMayChangeBetweenCalls) {
  for (const Operation& operation : operations()) {
    SCOPED_TRACE(operation.name);
    const Tensor expected = computed_alone(operation);
    for (const int threads : {2, 1, 3, 1, 2}) {
      const Team team(threads);
      expect_close(operation.run(), expected, kSlack);
    }
  }
}

TEST(OnednnTest, RunsInsideOfParallelRegions) {
  for (const Operation& operation : operations()) {
    SCOPED_TRACE(operation.name);
    const Tensor expected = computed_alone(operation);
    const Team team(2);
    expect_close(operation.run(), expected, kSlack);
    Tensor results[2];
#pragma omp parallel num_threads(2)
    results[omp_get_thread_num()] = operation.run();
    for (const Tensor& result : results)
      if (result.defined()) expect_close(result, expected, kSlack);
  }
}

TEST(OnednnTest, HeedsLimitsOfOpenMp) {
  const int levels = omp_get_max_active_levels();
  for (const Operation& operation : operations()) {
    SCOPED_TRACE(operation.name);
    const Tensor expected = computed_alone(operation);
    const Team team(2);
    expect_close(operation.run(), expected, kSlack);
    omp_set_max_active_levels(0);
    expect_close(operation.run(), expected, kSlack);
    omp_set_max_active_levels(levels);
    // The runtime may now grant fewer threads than it announces.
    omp_set_dynamic(1);
    const Team large_team(64);
    expect_close(operation.run(), expected, kSlack);
    EXPECT_EQ(omp_get_max_threads(), 64);
    EXPECT_TRUE(omp_get_dynamic());
    omp_set_dynamic(0);
  }
}

}  // namespace
}  // namespace ringrad::kernels
