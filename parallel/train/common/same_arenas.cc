#include "ringrad/parallel/train/common/same_arenas.h"

#include <algorithm>
#include <array>
#include <map>

#include "ringrad/autograd/node.h"

namespace ringrad {
namespace {

constexpr std::size_t kFacts = 6;
using Facts = std::array<std::int64_t, kFacts>;

// Which memory of several, numbered in the order of their first use, and the first byte there; {-1,
// -1} for memory of its own.
class Places {
 public:
  std::array<std::int64_t, 2> place_of(const Tensor& x) {
    if (!x.defined() || !x.storage()->whole()) return {-1, -1};
    const Storage& whole = *x.storage()->whole();
    const auto number = static_cast<std::int64_t>(numbers_.size());
    return {numbers_.emplace(&whole, number).first->second, x.raw_data() - whole.data()};
  }

 private:
  std::map<const Storage*, std::int64_t> numbers_;
};

// All that decides how make_arenas() cuts, for each parameter: whether it is seen, where it lies,
// where its gradient lies, and, last, whether it has gaps and so cannot stay alone.
std::vector<Facts> facts_of(const std::vector<Tensor>& parameters) {
  Places values, gradients;
  std::vector<Facts> all;
  for (const Tensor& x : parameters) {
    const Leaf* const leaf = leaf_of(x);
    const bool is_seen = nn::is_seen(x);
    const auto value = values.place_of(is_seen ? Tensor() : x);
    const auto gradient = gradients.place_of(value[0] < 0 || !leaf ? Tensor() : leaf->grad);
    all.push_back(
        {is_seen, value[0], value[1], gradient[0], gradient[1], !is_dense(x.shape(), x.strides())});
  }
  return all;
}

}  // namespace

std::vector<nn::ParameterArena> make_same_arenas(const std::vector<Tensor>& parameters,
                                                 Communicator& comm,
                                                 const nn::MakeGradients& make_gradients,
                                                 Where where) {
  if (parameters.empty() || comm.world_size() == 1)
    return nn::make_arenas(parameters, make_gradients, where);
  const std::vector<Facts> own = facts_of(parameters);
  const auto count = static_cast<std::int64_t>(own.size() * kFacts);
  // The greatest of x and of -x: the greatest and the least x.
  const Tensor both = empty({2, count}, {.dtype = DType::int64, .device = Device()}, where);
  std::int64_t *most = both.data<std::int64_t>(), *least = most + count;
  for (const Facts& facts : own)
    for (const std::int64_t fact : facts) {
      *most++ = fact;
      *least++ = -fact;
    }
  comm.all_reduce(both, ReduceOp::max, where);
  std::vector<bool> alone;
  most = both.data<std::int64_t>(), least = most + count;
  for (std::size_t i = 0; i < own.size(); ++i, most += kFacts, least += kFacts) {
    const bool is_alike = std::equal(most, most + kFacts - 1, least,
                                     [](std::int64_t a, std::int64_t b) { return a == -b; });
    const bool is_seen = most[0] == 1, has_gaps = most[kFacts - 1] == 1;
    alone.push_back(is_seen || (!is_alike && !has_gaps));
  }
  return nn::make_arenas(parameters, make_gradients, where, alone);
}

}  // namespace ringrad
