// The tests of collectives can detect faults: shown for the values alone, and for calls of a
// communicator that falsifies data.

#include "ringrad/tests/parallel/comm/collective_values.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/parallel/comm/common/collective_call.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/tests/parallel/comm/backend_suite.h"

namespace ringrad {
namespace {

using testing::contribution;
using testing::is_reducible;
using testing::kAllDTypes;
using testing::kAllReduceOps;
using testing::kAmpleElements;
using testing::kMostRanks;
using testing::reduced_tensor;

bool is_idempotent(DType dtype, ReduceOp op) {
  return op == ReduceOp::min || op == ReduceOp::max || dtype == DType::bool_;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.raw_data(), b.raw_data(),
                     static_cast<std::size_t>(a.numel()) * size_bytes(a.dtype())) == 0;
}

template <class Body>
void for_every_reduction(Body body) {
  for (const DType dtype : kAllDTypes)
    for (const ReduceOp op : kAllReduceOps)
      if (is_reducible(dtype, op)) body(dtype, op);
}

// --- Values ---

double combine(DType dtype, ReduceOp op, double a, double b) {
  if (op == ReduceOp::min) return std::min(a, b);
  if (op == ReduceOp::max) return std::max(a, b);
  const double result = op == ReduceOp::product ? a * b : a + b;
  return dtype == DType::uint8 ? std::fmod(result, 256) : result;
}

// The reduction over the listed ranks; ranks may be missing or repeated.
Tensor reduced_over(DType dtype, ReduceOp op, int n, const std::vector<int>& ranks) {
  return testing::make_tensor(dtype, kAmpleElements, [&](std::int64_t i) {
    double result = contribution(dtype, op, ranks[0], i);
    for (std::size_t k = 1; k < ranks.size(); ++k)
      result = combine(dtype, op, result, contribution(dtype, op, ranks[k], i));
    return op == ReduceOp::mean ? result / n : result;
  });
}

TEST(CollectiveValuesTest, EveryRanksValueCountsOnce) {
  for_every_reduction([](DType dtype, ReduceOp op) {
    for (int n = 2; n <= kMostRanks; ++n) {
      const Tensor whole = reduced_tensor(dtype, op, n, kAmpleElements);
      std::vector<int> all(static_cast<std::size_t>(n));
      for (int r = 0; r < n; ++r) all[static_cast<std::size_t>(r)] = r;
      EXPECT_TRUE(same_bits(whole, reduced_over(dtype, op, n, all)));
      for (int r = 0; r < n; ++r) {
        SCOPED_TRACE(concat(dtype, ' ', op, " of ", n, " ranks, rank ", r));
        std::vector<int> missing = all, twice = all, replaced = all;
        missing.erase(missing.begin() + r);
        twice.push_back(r);
        replaced[static_cast<std::size_t>(r)] = (r + 1) % n;
        EXPECT_FALSE(same_bits(whole, reduced_over(dtype, op, n, missing)));
        EXPECT_FALSE(same_bits(whole, reduced_over(dtype, op, n, replaced)));
        EXPECT_EQ(same_bits(whole, reduced_over(dtype, op, n, twice)), is_idempotent(dtype, op));
      }
    }
  });
}

TEST(CollectiveValuesTest, NoNumberIsZeroOrAnInput) {
  for_every_reduction([](DType dtype, ReduceOp op) {
    for (int n = 2; n <= kMostRanks; ++n) {
      const Tensor whole = reduced_tensor(dtype, op, n, kAmpleElements);
      for (const double value : whole.to_vector<double>())
        EXPECT_TRUE(value != 0 || dtype == DType::bool_) << dtype << ' ' << op;
      for (int r = 0; r < n; ++r)
        EXPECT_FALSE(same_bits(whole, testing::input_of(dtype, op, r, kAmpleElements)))
            << dtype << ' ' << op;
    }
  });
}

// The share of pairs of elements that are equal, so that swapping them would go unnoticed.
double share_of_equal_pairs(const std::vector<double>& values) {
  double equal = 0, all = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = 0; j < i; ++j, ++all) equal += values[i] == values[j];
  return equal / all;
}

// 8 and 16 bits cannot distinguish all elements, and fewer products than sums are exact.
TEST(CollectiveValuesTest, TwoElementsThatAreSwappedShow) {
  for_every_reduction([](DType dtype, ReduceOp op) {
    for (int n = 2; n <= kMostRanks; ++n) {
      const double share =
          share_of_equal_pairs(reduced_tensor(dtype, op, n, kAmpleElements).to_vector<double>());
      const bool is_wide = size_bytes(dtype) > 2 && op != ReduceOp::product;
      const double bound = dtype == DType::bool_ ? 0.85 : is_wide ? 0 : 0.07;
      EXPECT_LE(share, bound) << dtype << ' ' << op << " of " << n;
    }
  });
}

// --- Calls ---

using Falsify = std::function<void(const Tensor&)>;

// Makes collectives through another communicator, and falsifies rank 1's data: its input before the
// call, or its result after it.
class Liar : public Communicator {
 public:
  Liar(Communicator& honest, Falsify input, Falsify result)
      : Communicator(honest.rank(), honest.world_size(), "liar"),
        honest_(honest),
        input_(honest.rank() == 1 ? std::move(input) : [](const Tensor&) {}),
        result_(honest.rank() == 1 ? std::move(result) : [](const Tensor&) {}) {}

  int failed_rank() const noexcept override { return honest_.failed_rank(); }

 protected:
  void do_abort(const std::string& reason) noexcept override { honest_.abort(reason); }
  void do_collective(const CollectiveCall& call, const Tensor& output, const Tensor& input,
                     Where where) override {
    if (is_in_place(call.op)) input_(output);
    honest_.run(call, output, is_in_place(call.op) ? output : falsified(input), where);
    result_(output);
  }
  void do_meet(const CollectiveCall&, Where) override { honest_.barrier(); }
  void do_send(const Tensor& tensor, int to, Where) override { honest_.send(tensor, to); }
  void do_recv(const Tensor& tensor, int from, Where) override { honest_.recv(tensor, from); }
  std::unique_ptr<Communicator> do_split(const std::vector<int>&, const std::string&,
                                         Where) override {
    return nullptr;
  }

 private:
  Tensor falsified(const Tensor& input) {
    const Tensor copy = testing::contiguous_copy(input);
    input_(copy);
    return copy;
  }

  Communicator& honest_;
  const Falsify input_, result_;
};

void nothing(const Tensor&) {}

// Replaces the elements' values by f(values).
Falsify as_values(std::function<void(std::vector<double>&)> f) {
  return [f](const Tensor& x) {
    auto values = x.to_vector<double>();
    f(values);
    kernels::copy_(
        x, view::reshape(testing::make_tensor(
                             x.dtype(), x.numel(),
                             [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; }),
                         x.shape()));
  };
}

// How many of the three ranks' checks fail; rank 1 is the root.
int num_failed_checks(const testing::CheckedCall& call, const Falsify& input,
                      const Falsify& result) {
  ::testing::TestPartResultArray results;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &results);
    run_ranks(3, [&](Communicator& comm) {
      Liar liar(comm, input, result);
      expect_exact(liar, call);
    });
  }
  return results.size();
}

template <class Body>
void for_every_call(Body body) {
  for (const Collective collective : kAllCollectives)
    for_every_reduction([&](DType dtype, ReduceOp op) {
      if (!testing::reduces(collective) && op != ReduceOp::max) return;
      SCOPED_TRACE(concat(name(collective), ' ', op, ' ', dtype));
      body(testing::CheckedCall{collective, dtype, op, 1, kAmpleElements});
    });
}

TEST(CheckedCollectivesTest, AnHonestCommunicatorPasses) {
  for_every_call([](const testing::CheckedCall& call) {
    EXPECT_EQ(num_failed_checks(call, nothing, nothing), 0);
  });
}

TEST(CheckedCollectivesTest, AFalseResultIsSeen) {
  const std::pair<const char*, Falsify> lies[] = {
      {"zeroed", as_values([](auto& x) { std::fill(x.begin(), x.end(), 0); })},
      {"shifted by an element",
       as_values([](auto& x) { std::rotate(x.begin(), x.begin() + 1, x.end()); })},
      {"halves swapped", as_values([](auto& x) {
         std::rotate(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
       })},
      {"backwards", as_values([](auto& x) { std::reverse(x.begin(), x.end()); })},
      {"last element lost", as_values([](auto& x) { x.back() = x.back() == 0; })}};
  for_every_call([&](const testing::CheckedCall& call) {
    for (const auto& [what, lie] : lies)
      EXPECT_GT(num_failed_checks(call, nothing, lie), 0) << what;
  });
}

// In all_gather and all_to_all, one rank's part takes the place of another's.
TEST(CheckedCollectivesTest, PartsOfTwoRanksThatAreSwappedAreSeen) {
  const auto swap_parts = as_values([](auto& x) {
    const auto part = static_cast<std::ptrdiff_t>(x.size() / 3);
    std::swap_ranges(x.begin(), x.begin() + part, x.begin() + part);
  });
  for_every_call([&](const testing::CheckedCall& call) {
    const bool gathers = call.collective == Collective::all_gather,
               scatters = call.collective == Collective::reduce_scatter,
               both = call.collective == Collective::all_to_all;
    if (gathers || both) {
      EXPECT_GT(num_failed_checks(call, nothing, swap_parts), 0);
    }
    if (scatters || both) {
      EXPECT_GT(num_failed_checks(call, swap_parts, nothing), 0);
    }
  });
}

// The number that does not change a reduction.
double neutral(DType dtype, ReduceOp op) {
  if (op == ReduceOp::product) return 1;
  if (op == ReduceOp::sum || op == ReduceOp::mean) return 0;
  const bool is_max = op == ReduceOp::max;
  if (dtype == DType::bool_ || dtype == DType::uint8)
    return is_max ? 0 : dtype == DType::bool_ ? 1 : 255;
  return is_max ? -65504 * 1024.0 : 65504 * 1024.0;  // an infinity in float16
}

TEST(CheckedCollectivesTest, ARankThatIsLeftOutOrCountsTwiceIsSeen) {
  for_every_call([](const testing::CheckedCall& call) {
    if (!testing::reduces(call.collective)) return;
    const Falsify left_out =
        as_values([&](auto& x) { std::fill(x.begin(), x.end(), neutral(call.dtype, call.op)); });
    EXPECT_GT(num_failed_checks(call, left_out, nothing), 0);
    if (is_idempotent(call.dtype, call.op)) return;
    const Falsify twice = as_values([&](auto& x) {
      for (double& value : x) value = combine(call.dtype, call.op, value, value);
    });
    EXPECT_GT(num_failed_checks(call, twice, nothing), 0);
  });
}

// A rank reads the previous call's values, as if no rank had waited.
TEST(CheckedCollectivesTest, TheResultOfTheCallBeforeIsSeen) {
  for_every_call([](testing::CheckedCall call) {
    Tensor before;
    num_failed_checks(call, nothing,
                      [&](const Tensor& x) { before = testing::contiguous_copy(x); });
    call.first = 1000;
    EXPECT_GT(num_failed_checks(call, nothing, [&](const Tensor& x) { kernels::copy_(x, before); }),
              0);
  });
}

}  // namespace
}  // namespace ringrad
