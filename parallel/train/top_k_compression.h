// Top-k compression: of each bucket only the k gradients that matter most are sent.
//
//     left + g    0.1  -2.0   0.3   0.0   1.5  -0.2         k = 2
//     sent              -2.0 @1             1.5 @4          to all ranks, by all_gather
//     left        0.1   0     0.3   0.0   0    -0.2         goes with the next gradients (error_memory.h)
//
// Each rank chooses by its own numbers, so the average has up to n k elements. It is added in rank order on every rank:
// all hold the same bits. What a rank sends takes 8 k bytes, and what it receives n times as much; all of it is 4 N: it
// pays for k far below N / (2 n).
//
// The choice is made by the CPU. Buckets of a GPU are copied there, and the host waits for that: use it where the
// network is slower than that link.

#pragma once

#include "parallel/train/reducer.h"

namespace ringrad {

struct TopKOptions {
  double ratio = 0.01;  ///< k = ratio times the elements of the bucket, rounded up
};

/// Sends the k largest of |left + g|, of equal ones the first; what is left, this rank keeps. With ratio 1 it averages.
///
/// NaN counts as infinite, and is sent; of what is left only finite numbers are kept. A pass that adds to gradients that
/// were reduced before compresses these again: clear gradients after each step. A hook serves one model.
///
/// DTypes:  gradients of 16 bits are kept and sent in float32
/// Throws:  ValueError unless 0 < ratio <= 1
/// Paper:   Stich, Cordonnier, Jaggi 2018, "Sparsified SGD with memory", arXiv:1809.07599; Lin et al. 2018, "Deep
///          gradient compression", arXiv:1712.01887, of which this is the sparsification without the momentum
CommunicationHook top_k_compression(const TopKOptions& options = {},
                                    Where where = Where::current());

}  // namespace ringrad
