// Top-k compression: of each bucket, only the k gradients of largest magnitude are sent.
//
//     left + g    0.1  -2.0   0.3   0.0   1.5  -0.2         k = 2
//     sent              -2.0 @1             1.5 @4          to all ranks, by all_gather
//     left        0.1   0     0.3   0.0   0    -0.2         added to the next ones (error_memory.h)
//
// Each rank chooses by its own numbers, so the average has up to n k nonzero elements. Every rank
// adds in rank order, so all hold the same bits. A rank sends 8 k bytes and receives n times as
// much; a full bucket is 4 N bytes, so this pays for k far below N / (2 n).
//
// The CPU makes the choice. Buckets of a GPU are copied there, and the host waits for the copy: use
// it where the network is slower than the link between GPU and host.

#pragma once

#include "ringrad/parallel/train/data_parallel/reducer.h"

namespace ringrad {

struct TopKOptions {
  double ratio = 0.01;  ///< k = ratio times the elements of the bucket, rounded up
};

/// Sends the k largest of |left + g|, the first ones among equals; this rank keeps what is left.
/// With ratio 1 it averages.
///
/// NaN counts as infinite, and is sent; only finite numbers are kept. A pass that adds to gradients
/// that were already reduced compresses these again: clear gradients after each step. A hook serves
/// one model.
///
/// DTypes:  gradients of 16 bits are kept and sent in float32
/// Throws:  ValueError unless 0 < ratio <= 1
/// Paper:   Stich, Cordonnier, Jaggi 2018, "Sparsified SGD with memory", arXiv:1809.07599; Lin et
///          al. 2018, "Deep gradient compression", arXiv:1712.01887: its sparsification, but not
///          its momentum
CommunicationHook top_k_compression(const TopKOptions& options = {},
                                    Where where = Where::current());

}  // namespace ringrad
