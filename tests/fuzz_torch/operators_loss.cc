#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/loss/embedding_loss.h"
#include "ringrad/autograd/loss/linear_cross_entropy.h"
#include "ringrad/autograd/loss/pointwise_loss.h"
#include "ringrad/autograd/loss/softmax.h"
#include "ringrad/tests/fuzz_torch/arguments.h"

namespace ringrad::fuzz_torch {
namespace {

Reduction reduction_of(Arguments with) {
  const std::string name = with["reduction"];
  return name == "none" ? Reduction::none : name == "sum" ? Reduction::sum : Reduction::mean;
}

// The weight of classes, if given, has no gradient in PyTorch.
Tensor weight_of(In in, std::size_t place) {
  return in.size() > place ? in[place].detach() : Tensor();
}

CrossEntropyOptions cross_entropy_options(In in, Arguments with, std::size_t weight) {
  return {.weight = weight_of(in, weight),
          .ignore_index = with["ignore"],
          .label_smoothing = with["label_smoothing"].get<double>(),
          .reduction = reduction_of(with)};
}

}  // namespace

Operators loss_operators() {
  return {
      {"softmax", [](In in, Arguments with) { return softmax(in[0], with["axis"]); }},
      {"log_softmax", [](In in, Arguments with) { return log_softmax(in[0], with["axis"]); }},
      {"cross_entropy",
       [](In in, Arguments with) {
         return cross_entropy(in[0], indices_of(with), cross_entropy_options(in, with, 1));
       }},
      {"nll_loss",
       [](In in, Arguments with) {
         return nll_loss(in[0], indices_of(with),
                         {.weight = weight_of(in, 1),
                          .ignore_index = with["ignore"],
                          .reduction = reduction_of(with)});
       }},
      {"linear_cross_entropy",
       [](In in, Arguments with) {
         return linear_cross_entropy(in[0], in[1], indices_of(with), in[2],
                                     cross_entropy_options(in, with, 3));
       }},
      {"cosine_embedding_loss",
       [](In in, Arguments with) {
         const Tensor signs = 1 - 2 * indices_of(with);
         return cosine_embedding_loss(in[0], in[1], signs, 0.1, reduction_of(with));
       }},
      {"triplet_margin_loss",
       [](In in, Arguments with) {
         return triplet_margin_loss(in[0], in[1], in[2],
                                    {.swap = with["swap"], .reduction = reduction_of(with)});
       }},
      {"huber_loss",
       [](In in, Arguments with) { return huber_loss(in[0], in[1], reduction_of(with), 0.7); }},
      {"smooth_l1_loss",
       [](In in, Arguments with) { return smooth_l1_loss(in[0], in[1], reduction_of(with), 0.7); }},
      {"kl_div",
       [](In in, Arguments with) { return kl_div(in[0], in[1], reduction_of(with), true); }},
      {"mse_loss",
       [](In in, Arguments with) { return mse_loss(in[0], in[1], reduction_of(with)); }},
      {"l1_loss", [](In in, Arguments with) { return l1_loss(in[0], in[1], reduction_of(with)); }},
      {"bce_with_logits",
       [](In in, Arguments with) {
         return bce_with_logits(in[0], in[1], in[2].detach(), reduction_of(with));
       }},
  };
}

}  // namespace ringrad::fuzz_torch
