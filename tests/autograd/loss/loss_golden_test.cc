// Every loss against PyTorch: its value and the gradient of the input.

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/loss/embedding_loss.h"
#include "ringrad/autograd/loss/linear_cross_entropy.h"
#include "ringrad/autograd/loss/pointwise_loss.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/golden/golden.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::GoldenCase;

using Loss = std::function<Tensor(const Tensor& x, const Tensor& target, const GoldenCase& golden)>;

using X = const Tensor&;
using Golden = const GoldenCase&;

Loss cross_entropy_with(const CrossEntropyOptions& options, bool weighted = false) {
  return [=](const Tensor& x, const Tensor& target, const GoldenCase& golden) {
    CrossEntropyOptions complete = options;
    if (weighted) complete.weight = golden.at("weight");
    return cross_entropy(x, target, complete);
  };
}

Loss pointwise(Tensor (*loss)(const Tensor&, const Tensor&, Reduction, Where),
               Reduction reduction = Reduction::mean) {
  return [=](const Tensor& x, const Tensor& target, const GoldenCase&) {
    return loss(x, target, reduction, Where::current());
  };
}

Loss binary_cross_entropy(bool weighted) {
  return [=](const Tensor& x, const Tensor& target, const GoldenCase& golden) {
    return bce_with_logits(x, target, weighted ? golden.at("pos_weight") : Tensor());
  };
}

const std::map<std::string, Loss> kLosses = {
    {"cross_entropy", cross_entropy_with({})},
    {"cross_entropy sum", cross_entropy_with({.reduction = Reduction::sum})},
    {"cross_entropy none", cross_entropy_with({.reduction = Reduction::none})},
    {"cross_entropy weight", cross_entropy_with({}, true)},
    {"cross_entropy ignore_index", cross_entropy_with({})},
    {"cross_entropy label_smoothing", cross_entropy_with({.label_smoothing = 0.1})},
    {"cross_entropy weight ignore_index label_smoothing",
     cross_entropy_with({.label_smoothing = 0.2}, true)},
    {"cross_entropy image", cross_entropy_with({})},
    {"cross_entropy image none",
     cross_entropy_with({.label_smoothing = 0.1, .reduction = Reduction::none}, true)},
    {"nll_loss", [](X x, X t, Golden) { return nll_loss(x, t); }},
    {"nll_loss weight",
     [](X x, X t, Golden golden) { return nll_loss(x, t, {.weight = golden.at("weight")}); }},
    {"nll_loss image sum",
     [](X x, X t, Golden) { return nll_loss(x, t, {.reduction = Reduction::sum}); }},
    {"kl_div", [](X x, X t, Golden) { return kl_div(x, t); }},
    {"kl_div log_target sum", [](X x, X t, Golden) { return kl_div(x, t, Reduction::sum, true); }},
    {"huber_loss", [](X x, X t, Golden) { return huber_loss(x, t); }},
    {"huber_loss 0.4", [](X x, X t, Golden) { return huber_loss(x, t, Reduction::none, 0.4); }},
    {"smooth_l1_loss", [](X x, X t, Golden) { return smooth_l1_loss(x, t); }},
    {"smooth_l1_loss 0.4",
     [](X x, X t, Golden) { return smooth_l1_loss(x, t, Reduction::sum, 0.4); }},
    {"cosine_embedding_loss",
     [](X x, X t, Golden golden) { return cosine_embedding_loss(x, golden.at("b"), t, 0.1); }},
    {"triplet_margin_loss",
     [](X x, X t, Golden golden) { return triplet_margin_loss(x, t, golden.at("negative")); }},
    {"triplet_margin_loss 3 swap",
     [](X x, X t, Golden golden) {
       return triplet_margin_loss(
           x, t, golden.at("negative"),
           {.margin = 0.5, .p = 3, .swap = true, .reduction = Reduction::none});
     }},
    {"linear_cross_entropy",
     [](X x, X t, Golden golden) {
       return linear_cross_entropy(x, golden.at("weight"), t, golden.at("bias"),
                                   {.label_smoothing = 0.1});
     }},
    {"mse_loss", pointwise(mse_loss)},
    {"mse_loss sum", pointwise(mse_loss, Reduction::sum)},
    {"l1_loss", pointwise(l1_loss)},
    {"bce_with_logits", binary_cross_entropy(false)},
    {"bce_with_logits pos_weight", binary_cross_entropy(true)},
};

TEST(LossGoldenTest, ValuesAndGradientsMatchPyTorch) {
  const auto cases = testing::read_golden("losses");
  EXPECT_EQ(cases.size(), kLosses.size());
  for (const auto& [name, golden] : cases) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(kLosses.contains(name));
    const Tensor x = clone(golden.at("input")).set_requires_grad();
    const Tensor value = kLosses.at(name)(x, golden.at("target"), golden);
    sum(value).backward();
    expect_close(value, golden.at("loss"));
    expect_close(x.grad(), golden.at("grad.input"));
  }
}

}  // namespace
}  // namespace ringrad
