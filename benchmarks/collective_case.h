#pragma once

// A case of benchmarks/collectives: one collective, by one backend and algorithm, of one size.
//
//   n ranks, S = the size that is printed, in bytes, t = the time of one call:
//
//   collective       input     output    algbw    busbw              what S is
//   all_reduce       S         S         S / t    algbw 2 (n-1) / n  each rank's tensor
//   reduce_scatter   S         S / n     S / t    algbw (n-1) / n    each rank's input
//   all_gather       S / n     S         S / t    algbw (n-1) / n    each rank's output
//   broadcast        S         S         S / t    algbw              the root's tensor
//   reduce           S         S         S / t    algbw              each rank's tensor
//   all_to_all       S         S         S / t    algbw (n-1) / n    each rank's tensors
//   send_recv        S         S         S / t    algbw              a message to the next rank
//
// These are the definitions of nccl-tests: busbw is the bandwidth that a link carries, comparable
// between numbers of ranks.
//
// Inputs are small whole numbers, different for each rank and place, so that reductions are exact
// in every order and every dtype; results are compared bit by bit with those of a plain loop. (Sums
// in bfloat16 are exact up to 85 ranks.)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ringrad/core/tensor.h"
#include "ringrad/parallel/comm/common/reduce_op.h"
#include "ringrad/parallel/comm/group_options.h"

namespace ringrad::bench {

enum class Routine : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  all_to_all,
  send_recv,
};

inline constexpr int kNumRoutines = 7;

const char* name(Routine routine);

/// True for the collectives that add.
constexpr bool is_reduction(Routine routine) {
  return routine == Routine::all_reduce || routine == Routine::reduce_scatter ||
         routine == Routine::reduce;
}
constexpr bool is_rooted(Routine routine) {
  return routine == Routine::broadcast || routine == Routine::reduce;
}

/// Plain bytes, because it lies in memory that processes share.
struct CollectiveCase {
  Routine routine = Routine::all_reduce;
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  int ranks = 2;
  std::int64_t count = 1;        ///< elements of the smaller of input and output, as in nccl-tests
  char backend[16] = "threads";  ///< collective_backends.h
  char algorithm[40] = "default";  ///< "default" leaves the choice to the group
  int segments = 0;                ///< 0 chooses by size
  DeviceTransfers transfers = DeviceTransfers::automatic;
  bool pin = true;  ///< one processor per rank where there are enough
  int samples = 15;
  int gpus = 0;   ///< ranks take turns on the first `gpus` GPUs; 0 means all
  int plant = 0;  ///< number of elements of one rank's result to corrupt before the check

  /// The case whose printed size is `bytes`, or the smallest larger one.
  void set_size(std::int64_t bytes);
  std::int64_t bytes() const;
  std::int64_t input_count() const;
  std::int64_t output_count() const;
  double busbw_factor() const;
};

/// Writes the name of a backend or an algorithm. REQUIRES: it fits
template <std::size_t N>
void set_name(char (&to)[N], const std::string& name) {
  std::fill(to + name.copy(to, N - 1), to + N, '\0');
}

/// Fills the input of rank `rank`.
void fill_input(const CollectiveCase& one, int rank, const Tensor& input);

void fill_zero(const Tensor& tensor);

/// The number of elements of `output` that differ in any bit from the expected result of rank
/// `rank`. All three functions take any device.
std::int64_t count_wrong(const CollectiveCase& one, int rank, const Tensor& output);

}  // namespace ringrad::bench
