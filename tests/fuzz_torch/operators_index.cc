#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/index/embedding.h"
#include "ringrad/autograd/index/gather.h"
#include "ringrad/autograd/index/index_select.h"
#include "ringrad/autograd/index/mask.h"
#include "ringrad/autograd/index/scatter.h"
#include "ringrad/autograd/order/quantile.h"
#include "ringrad/autograd/order/scan.h"
#include "ringrad/autograd/order/sort.h"
#include "ringrad/autograd/order/unique.h"
#include "ringrad/tests/fuzz_torch/arguments.h"

namespace ringrad::fuzz_torch {
namespace {

Operators by_index() {
  return {
      {"brackets_positions", [](In in, Arguments with) { return in[0][indices_of(with)]; }},
      {"brackets_mask", [](In in, Arguments) { return in[0][in[1]]; }},
      {"embedding", [](In in, Arguments with) { return embedding(in[0], indices_of(with)); }},
      {"embedding_padding",
       [](In in, Arguments with) { return embedding(in[0], indices_of(with), with["padding"]); }},
      {"index_select",
       [](In in, Arguments with) { return index_select(in[0], with["axis"], indices_of(with)); }},
      {"gather",
       [](In in, Arguments with) { return gather(in[0], with["axis"], indices_of(with)); }},
      {"scatter_add",
       [](In in, Arguments with) {
         return scatter_add(in[0], with["axis"], indices_of(with), in[1]);
       }},
      {"scatter",
       [](In in, Arguments with) {
         return scatter(in[0], with["axis"].get<std::int64_t>(), indices_of(with), in[1]);
       }},
      {"scatter_number",
       [](In in, Arguments with) {
         return scatter(in[0], with["axis"].get<std::int64_t>(), indices_of(with),
                        scalar_of(with["number"]));
       }},
      {"index_add",
       [](In in, Arguments with) {
         return index_add(in[0], with["axis"], indices_of(with), in[1], 0.5);
       }},
      {"index_fill",
       [](In in, Arguments with) {
         return index_fill(in[0], with["axis"], indices_of(with), in[1]);
       }},
      {"masked_fill",
       [](In in, Arguments with) { return masked_fill(in[0], in[1], scalar_of(with["number"])); }},
      {"masked_select", of(static_cast<Binary>(masked_select))},
      {"nonzero", of(static_cast<Unary>(nonzero))},
      {"one_hot", [](In, Arguments with) { return one_hot(indices_of(with), with["classes"]); }},
  };
}

using Sorter = std::pair<Tensor, Tensor> (*)(const Tensor& x, std::int64_t axis, bool flag,
                                             Where where);
using Place = Tensor (*)(const Tensor& x, std::int64_t axis, bool flag, Where where);

// Axis and flag are arguments of the step; so is the choice between values and positions.
Operator both_of(Sorter f, const char* flag) {
  return [f, flag](In in, Arguments with) {
    const auto [values, positions] = f(in[0], with["axis"], with[flag], Where::current());
    return with["positions"].get<bool>() ? positions : values;
  };
}

Operators by_order() {
  return {
      {"cumsum", [](In in, Arguments with) { return cumsum(in[0], with["axis"]); }},
      {"cumprod", [](In in, Arguments with) { return cumprod(in[0], with["axis"]); }},
      {"sort", both_of(sort, "descending")},
      {"max_with_indices", both_of(max_with_indices, "keepdim")},
      {"min_with_indices", both_of(min_with_indices, "keepdim")},
      {"argsort",
       [](In in, Arguments with) { return argsort(in[0], with["axis"], with["descending"]); }},
      {"topk",
       [](In in, Arguments with) {
         return topk(in[0], with["k"], with["axis"], with["largest"]).first;
       }},
      {"searchsorted",
       [](In in, Arguments with) {
         return searchsorted(sort(in[0], -1).first, in[1], with["right"]);
       }},
      {"unique",
       [](In in, Arguments with) {
         return unique(in[0].detach()).at(with["piece"].get<std::size_t>());
       }},
      {"median",
       [](In in, Arguments with) {
         return median(in[0], whole_or_none(with["axis"]), with["keepdim"]);
       }},
      {"quantile",
       [](In in, Arguments with) {
         return quantile(in[0], with["q"], whole_or_none(with["axis"]), with["keepdim"]);
       }},
  };
}

}  // namespace

Operators index_operators() {
  Operators result = by_index();
  result.merge(by_order());
  return result;
}

}  // namespace ringrad::fuzz_torch
