#include <limits>

#include "ringrad/kernels/reduce/argmax.h"
#include "ringrad/kernels/reduce/reduce_ops.h"
#include "ringrad/kernels/reduce/reduce_plan_cuda.cuh"

namespace ringrad::kernels::cuda {
namespace {

template <class T>
struct Candidate {
  T value;
  std::int64_t position;
};

// Positions make the choice independent of the merge order: the first of equal elements wins, and
// the first NaN wins over all numbers.
template <class T, bool kLargest>
struct Best {
  using Element = T;
  using Partial = Candidate<MathType<T>>;
  using Total = Partial;
  struct Center {};
  static constexpr Total kStart = {
      kLargest ? reduce_ops::Max<T>::kStart : reduce_ops::Min<T>::kStart,
      std::numeric_limits<std::int64_t>::max()};

  constexpr Center center(std::int64_t) const { return {}; }
  constexpr Partial map(T x, std::int64_t position, Center) const {
    return {static_cast<MathType<T>>(x), position};
  }
  static constexpr Total merge(Total a, Total b) {
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    const bool better = kLargest ? b.value > a.value : b.value < a.value;
    const bool equal = a.value == b.value || (a_nan && b_nan);
    const bool b_wins = better || (b_nan && !a_nan) || (equal && b.position < a.position);
    return b_wins ? b : a;
  }
};

struct Position {
  std::int64_t* out;
  constexpr std::int64_t operator()(const auto& best) const { return best.position; }
};

template <bool kLargest>
void search(const char* name, const Tensor& x, const ReducePlan& plan, const Tensor& result,
            Where where) {
  dispatch_dtype(x.dtype(), [&]<class Stored>() {
    using T = Merged<Stored>;
    reduce(name, plan, Best<T, kLargest>(), reinterpret_cast<const T*>(x.raw_data()),
           Position{result.device_data<std::int64_t>()}, x.device(), where);
  });
}

}  // namespace

void find_extreme(const Tensor& x, const Positions& positions, bool largest, const Tensor& result,
                  Where where) {
  const ReducePlan plan = make_reduce_plan(positions.outer, positions.extent, positions.inner);
  largest ? search<true>("argmax", x, plan, result, where)
          : search<false>("argmin", x, plan, result, where);
}

}  // namespace ringrad::kernels::cuda
