#include "ringrad/autograd/matmul/einsum.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/matmul/einsum_equation.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/autograd/shape/diagonal.h"

namespace ringrad {
namespace {

using namespace einsum_equation;

template <class Visit>
void for_each_pair(std::size_t n, Visit visit) {
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j) visit(std::pair(i, j));
}

// A tensor whose axes have labels.
struct Term {
  Tensor x;
  Labels labels;

  LabelSet set() const { return set_of(labels); }
  int axis_of(Label label) const {
    return static_cast<int>(std::ranges::find(labels, label) - labels.begin());
  }
};

// What a contraction knows of the whole equation.
class Contraction {
 public:
  Contraction(const std::string& text, std::span<const Tensor> operands, Where where)
      : where_(where), text_(text), equation_(read(text, operands, where)) {
    for (std::size_t k = 0; k < operands.size(); ++k)
      terms_.push_back(prepared({operands[k], equation_.operands[k]}));
  }

  Tensor run() {
    while (terms_.size() > 1) {
      const auto [i, j] = next_pair();
      const Term a = terms_[i], b = terms_[j];
      terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(j));
      terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(i));
      terms_.push_back(contracted(a, b, needed()));
    }
    const Term last = summed(terms_[0], set_of(equation_.output));
    return permuted(last, equation_.output);
  }

 private:
  using Pair = std::pair<std::size_t, std::size_t>;

  Term prepared(Term term) const;
  Term summed(const Term& term, LabelSet kept) const;
  Term contracted(const Term& left, const Term& right, LabelSet kept) const;
  Term multiplied(const Term& a, const Term& b) const;
  Term matrix_product(const Term& a, const Term& b, LabelSet kept) const;
  Term matrix_product_of(const Term& a, const Term& b, LabelSet kept) const;
  Tensor permuted(const Term& term, const Labels& labels) const;
  Tensor as_matrices(const Term& term, const Labels& batch, const Labels& rows,
                     const Labels& columns) const;

  LabelSet needed() const;
  std::vector<LabelSet> merged(const std::vector<LabelSet>& sets, Pair pair) const;
  Pair next_pair() const;
  double cheapest(const std::vector<LabelSet>& sets, Pair& first) const;
  double size(LabelSet labels) const;

  std::int64_t extent(Label label) const {
    return equation_.extents[static_cast<std::size_t>(label)];
  }
  Labels in_order_of_result(LabelSet labels) const;

  Where where_;
  const std::string& text_;
  Equation equation_;
  std::vector<Term> terms_;
};

// -- One operand ----------------------------------------------------------------------------------

// Without repeated labels, and without axes of extent 1 that another operand extends.
Term Contraction::prepared(Term term) const {
  for (std::size_t i = 0; i < term.labels.size();) {
    const Label label = term.labels[i];
    const auto own = term.labels.begin() + static_cast<std::ptrdiff_t>(i);
    const auto again = std::find(own + 1, term.labels.end(), label);
    if (again == term.labels.end()) {
      ++i;
      continue;
    }
    const std::int64_t first = own - term.labels.begin(), second = again - term.labels.begin();
    RINGRAD_CHECK(term.x.size(first) == term.x.size(second), ShapeError, where_,
                  "einsum: axes with one letter must be equally long in \"", text_,
                  "\"; got shape ", term.x.shape());
    term.x = diagonal(term.x, 0, first, second, where_);  // whose axis comes last
    term.labels.erase(again);
    term.labels.erase(own);
    term.labels.push_back(label);
  }
  Shape unit;
  Labels labels;
  for (const Label label : term.labels) {
    const int axis = term.axis_of(label);
    if (term.x.shape()[axis] == 1 && extent(label) != 1)
      unit.push_back(axis);
    else
      labels.push_back(label);
  }
  if (!unit.empty()) term = {squeeze(term.x, unit, where_), labels};
  return term;
}

// The sum over the labels that are not in `kept`.
Term Contraction::summed(const Term& term, LabelSet kept) const {
  Shape axes;
  Labels labels;
  for (const Label label : term.labels)
    if (kept & only(label))
      labels.push_back(label);
    else
      axes.push_back(term.axis_of(label));
  return axes.empty() ? term : Term{sum(term.x, axes, false, where_), labels};
}

Tensor Contraction::permuted(const Term& term, const Labels& labels) const {
  if (labels == term.labels) return term.x;
  Shape order;
  for (const Label label : labels) order.push_back(term.axis_of(label));
  return permute(term.x, order, where_);
}

// -- Two operands ---------------------------------------------------------------------------------

Term Contraction::contracted(const Term& left, const Term& right, LabelSet kept) const {
  const Term a = summed(left, right.set() | kept), b = summed(right, left.set() | kept);
  const LabelSet both = a.set() & b.set(), either = a.set() | b.set();
  RINGRAD_CHECK(std::popcount(either & kept) <= kMaxDims, ShapeError, where_,
                "einsum: intermediate results must have at most ", kMaxDims, " axes; got ",
                std::popcount(either & kept), " for two operands of \"", text_, '"');
  if ((both & ~kept) == 0) return multiplied(a, b);
  // Rows of one element times columns of one element are no work for a matrix product.
  if (both == either && (both & kept) != 0 && std::popcount(either) <= kMaxDims)
    return summed(multiplied(a, b), kept);
  return matrix_product(a, b, kept);
}

// The broadcast product over all labels of both.
Term Contraction::multiplied(const Term& a, const Term& b) const {
  const Labels labels = in_order_of_result(a.set() | b.set());
  const auto aligned = [&](const Term& term) {
    Labels own;
    Shape shape;
    for (const Label label : labels) {
      const bool has = term.set() & only(label);
      if (has) own.push_back(label);
      shape.push_back(has ? extent(label) : 1);
    }
    return reshape(permuted(term, own), shape, where_);
  };
  return {mul(aligned(a), aligned(b), where_), labels};
}

// A term's labels in `labels`, in the order of its memory, so that neighbouring axes merge.
Labels in_order_of_memory(const Term& term, LabelSet labels) {
  Labels result;
  for (const Label label : term.labels)
    if (labels & only(label)) result.push_back(label);
  std::ranges::stable_sort(result, std::ranges::greater(),
                           [&](Label label) { return term.x.strides()[term.axis_of(label)]; });
  return result;
}

// (batch..., rows, columns); one axis of batch if matmul could not take them all.
Tensor Contraction::as_matrices(const Term& term, const Labels& batch, const Labels& rows,
                                const Labels& columns) const {
  Labels order = batch;
  order.insert(order.end(), rows.begin(), rows.end());
  order.insert(order.end(), columns.begin(), columns.end());
  const auto merged = [&](const Labels& labels) {
    std::int64_t product = 1;
    for (const Label label : labels) product *= extent(label);
    return product;
  };
  Shape shape;
  if (batch.size() + 2 > kMaxDims)
    shape.push_back(merged(batch));
  else
    for (const Label label : batch) shape.push_back(extent(label));
  shape.push_back(merged(rows));
  shape.push_back(merged(columns));
  return reshape(permuted(term, order), shape, where_);
}

// Labels of both operands that are kept are the batch; the others of both are summed; those of one
// operand are rows or columns. The result's last label should be a column: then its axes lie in
// memory as the equation names them.
Term Contraction::matrix_product(const Term& a, const Term& b, LabelSet kept) const {
  const LabelSet both = a.set() & b.set(), either = a.set() | b.set();
  const Labels outer = in_order_of_result(either & ~both);
  if (!outer.empty() && (a.set() & only(outer.back()))) return matrix_product_of(b, a, kept);
  return matrix_product_of(a, b, kept);
}

Term Contraction::matrix_product_of(const Term& a, const Term& b, LabelSet kept) const {
  const LabelSet both = a.set() & b.set();
  const Labels batch = in_order_of_result(both & kept);
  const Labels rows = in_order_of_memory(a, a.set() & ~both);
  const Labels columns = in_order_of_memory(b, b.set() & ~both);
  const Labels inner = in_order_of_memory(a.x.numel() < b.x.numel() ? b : a, both & ~kept);
  const Tensor product =
      matmul(as_matrices(a, batch, rows, inner), as_matrices(b, batch, inner, columns), where_);
  Labels labels = batch;
  labels.insert(labels.end(), rows.begin(), rows.end());
  labels.insert(labels.end(), columns.begin(), columns.end());
  Shape shape;
  for (const Label label : labels) shape.push_back(extent(label));
  return {reshape(product, shape, where_), labels};
}

// -- The order of pairs ---------------------------------------------------------------------------

// The labels that the result or a remaining term has.
LabelSet Contraction::needed() const {
  LabelSet set = set_of(equation_.output);
  for (const Term& term : terms_) set |= term.set();
  return set;
}

double Contraction::size(LabelSet labels) const {
  double product = 1;
  for (Label label = 0; label < kMostLabels; ++label)
    if (labels & only(label)) product *= static_cast<double>(extent(label));
  return product;
}

// The sets without i and j, and what remains of those two last.
std::vector<LabelSet> Contraction::merged(const std::vector<LabelSet>& sets, Pair pair) const {
  std::vector<LabelSet> rest;
  LabelSet kept = set_of(equation_.output);
  for (std::size_t k = 0; k < sets.size(); ++k) {
    if (k == pair.first || k == pair.second) continue;
    rest.push_back(sets[k]);
    kept |= sets[k];
  }
  rest.push_back((sets[pair.first] | sets[pair.second]) & kept);
  return rest;
}

// The fewest multiplications in any order, and the first pair of that order.
double Contraction::cheapest(const std::vector<LabelSet>& sets, Pair& first) const {
  if (sets.size() < 2) return 0;
  double best = std::numeric_limits<double>::infinity();
  first = {0, 1};
  for_each_pair(sets.size(), [&](Pair pair) {
    Pair next;
    const double cost =
        size(sets[pair.first] | sets[pair.second]) + cheapest(merged(sets, pair), next);
    if (cost >= best) return;
    best = cost;
    first = pair;
  });
  return best;
}

Contraction::Pair Contraction::next_pair() const {
  constexpr std::size_t kMostTried = 4;  // 18 orders
  std::vector<LabelSet> sets;
  for (const Term& term : terms_) sets.push_back(term.set());
  Pair best{0, 1};
  if (sets.size() <= kMostTried) {
    cheapest(sets, best);
    return best;
  }
  double least = std::numeric_limits<double>::infinity();
  for_each_pair(sets.size(), [&](Pair pair) {
    const double growth =
        size(merged(sets, pair).back()) - size(sets[pair.first]) - size(sets[pair.second]);
    if (growth >= least) return;
    least = growth;
    best = pair;
  });
  return best;
}

// Those that the result has, in its order, then the others.
Labels Contraction::in_order_of_result(LabelSet labels) const {
  Labels result;
  for (const Label label : equation_.output)
    if (labels & only(label)) result.push_back(label);
  labels &= ~set_of(equation_.output);
  for (Label label = 0; label < kMostLabels; ++label)
    if (labels & only(label)) result.push_back(label);
  return result;
}

}  // namespace

Tensor einsum(const std::string& equation, std::span<const Tensor> operands, Where where) {
  for (const Tensor& x : operands) {
    check_floating("einsum", x, where);
    check_same_dtype("einsum", operands[0], x, where);
    check_same_device("einsum", operands[0], x, where);
  }
  return Contraction(equation, operands, where).run();
}

Tensor einsum(const std::string& equation, std::initializer_list<Tensor> operands, Where where) {
  return einsum(equation, std::span(operands.begin(), operands.size()), where);
}

}  // namespace ringrad
