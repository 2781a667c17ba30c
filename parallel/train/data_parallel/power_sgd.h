// PowerSGD: each matrix of gradients is sent as a product of two thin matrices, found by one step
// of power iteration.
//
//     M = left + g                    (rows, columns)    this rank's own; left: error_memory.h
//     P = mean over ranks of M Q      (rows, rank)       all_reduce; last pass's Q, first random
//     P = Gram-Schmidt of P                              orthonormal columns, the same on all ranks
//     Q = mean over ranks of M^T P    (columns, rank)    all_reduce
//     mean of M  ~  P Q^T             left = M - P (M^T P)^T
//
// M^T P P^T is the projection of M onto the columns of P. A gradient of rank at most `rank` comes
// out exactly. For any other gradient, the pass sends the directions that dominated recent
// gradients, and error feedback sends the rest later. Everything before Gram-Schmidt is linear in
// M, so the ranks' gradients are compressed as if they had been added before.
//
// A parameter (rows, ...) counts as a matrix with all other axes as columns. It is compressed where
// that sends less: rank (rows + columns) < rows columns. The others are averaged as they are, in
// the same all_reduce as P. Each bucket takes two all_reduces.

#pragma once

#include <cstdint>

#include "ringrad/parallel/train/data_parallel/reducer.h"

namespace ringrad {

struct PowerSgdOptions {
  int rank = 4;
  std::uint64_t seed = 0;  ///< seed of the first Q; the same on all ranks
};

/// A column of P that depends on those before it is left out, and its column of Q starts again at
/// random. Gradients that are not finite make the parameter's average NaN on all ranks, and change
/// neither its Q nor what is left of it. A pass that adds to gradients that were already reduced
/// compresses these again: clear gradients after each step. A hook serves one model.
///
/// DTypes:  gradients of 16 bits are kept and sent in float32
/// Throws:  ValueError unless rank > 0
/// Paper:   Vogels, Karimireddy, Jaggi 2019, "PowerSGD: practical low-rank gradient compression for
///          distributed optimization", arXiv:1905.13727, algorithms 1 and 2. The paper keeps M - P
///          Q^T as the error. That error also holds how this rank's M differs from the others'
///          mean; summed over all ranks, both errors are the same
CommunicationHook power_sgd(const PowerSgdOptions& options = {}, Where where = Where::current());

}  // namespace ringrad
