#include "ringrad/benchmarks/collective_rank.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "ringrad/core/view.h"

namespace ringrad::bench {
namespace {

constexpr double kWordSeconds = 60;

template <std::size_t N>
void copy_text(std::array<char, N>& to, const std::string& from) {
  from.copy(to.data(), N - 1);
}

struct Buffers {
  Tensor output, input;
};

// In place, the smaller tensor is this rank's part of the larger one.
Buffers make_buffers(const CollectiveCase& one, int rank, RankEnd& end, bool in_place) {
  const std::int64_t in = one.input_count(), out = one.output_count();
  if (!in_place) return {end.make_tensor(out, one.dtype), end.make_tensor(in, one.dtype)};
  const Tensor whole = end.make_tensor(std::max(in, out), one.dtype);
  const auto part = [&](std::int64_t count) {
    return count == whole.numel() ? whole
                                  : view::slice(whole, 0, rank * one.count, (rank + 1) * one.count);
  };
  return {part(out), part(in)};
}

void measure_column(SharedCase& shared, int rank, RankEnd& end, bool in_place) {
  const CollectiveCase& one = shared.one;
  const Buffers buffers = make_buffers(one, rank, end, in_place);
  fill_input(one, rank, buffers.input);
  const std::function<void()> call = end.prepare(one, buffers.output, buffers.input);
  double wall = 0;
  if (end.is_judged()) {
    end.run(call, 1, wall);
    shared.wrong[in_place] += count_wrong(one, rank, buffers.output);
  }
  // Zeros, so that repeated sums in place stay finite.
  fill_zero(buffers.input);
  fill_zero(buffers.output);

  Measured& measured = shared.measured;
  TimingPlan plan{.samples = one.samples};
  if (measured.is_simulated) plan = {.samples = 1, .most_calls = 1};
  const auto time = time_collective(shared.board, rank, one.ranks, plan, [&](int calls) {
    end.settle();
    shared.board.barrier(one.ranks);
    const double seconds = end.run(call, calls, wall);
    wall /= calls;
    return seconds;
  });
  if (time) {
    Column& column = measured.column(in_place);
    column = {true, *time, wall * 1e6, end.is_judged() ? shared.wrong[in_place].load() : -1};
  }
  shared.board.barrier(one.ranks);
}

}  // namespace

void SharedCase::publish(const std::string& word) {
  copy_text(word_, word);
  has_word_.store(1, std::memory_order_release);
}

std::string SharedCase::published() {
  const double end = now_seconds() + kWordSeconds;
  while (has_word_.load(std::memory_order_acquire) == 0) {
    sched_yield();
    if (board.broken || now_seconds() > end)
      throw std::runtime_error("rank 0 must say within a minute where ranks meet; got nothing");
  }
  return word_.data();
}

void SharedCase::fail(const std::string& reason) {
  int expected = 0;
  if (has_failed_.compare_exchange_strong(expected, 1)) {
    copy_text(failure_, reason);
    has_failed_.store(2, std::memory_order_release);
  }
  board.broken = true;
}

std::string SharedCase::failure() const {
  return has_failed_.load(std::memory_order_acquire) == 2 ? failure_.data() : "";
}

Tensor RankEnd::make_tensor(std::int64_t count, DType dtype) {
  return empty({count}, {.dtype = dtype, .device = Device()});
}

double RankEnd::run(const std::function<void()>& call, int calls, double& wall) {
  const double start = now_seconds();
  for (int i = 0; i < calls; ++i) call();
  return wall = now_seconds() - start;
}

void measure(SharedCase& shared, int rank, RankEnd& end) {
  if (rank == 0) end.describe(shared.measured);
  shared.board.barrier(shared.one.ranks);
  for (const bool in_place : {false, true})
    if (end.has(shared.one, in_place)) measure_column(shared, rank, end, in_place);
}

}  // namespace ringrad::bench
