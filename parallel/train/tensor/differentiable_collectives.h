// Collectives that gradients flow through: the building blocks of networks split over ranks.
//
// A tensor of a split network is either whole (the same on all ranks) or split: each rank has a
// slice, or a term of a sum. Four functions convert between the two. They come in pairs; the
// functions of a pair are each other's gradient:
//
//                                  copy_to_ranks      x_r = x
//                                 ----------------->
//        whole                                                     a term x_r on each rank
//        x, and its gradient g    <-----------------
//                                  reduce_from_ranks  x = sum over r of x_r
//
//                                  scatter_to_ranks   x_r = slice r of x
//                                 ----------------->
//        whole                                                     a slice x_r on each rank
//        x, and its gradient g    <-----------------
//                                  gather_from_ranks  x = [x_0 | x_1 | ...]
//
// README.md says more: "Order of differentiable collectives".
//
// REQUIRES: whole tensors are the same on all ranks (not checked: that would cost more than the
//           computation); the communicator lives as long as results that are to be differentiated
// Throws:   CollectiveError unless all ranks call it with the same dtype and number of elements
// Paper:    Shoeybi et al. 2019, "Megatron-LM", arXiv:1909.08053, section 3, where the first pair
//           is called f and g

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/parallel/comm/communicator.h"

namespace ringrad {

/// x_r = x: x itself if it needs no gradient.
///
///   grad_input = sum over r of grad_output_r      all_reduce in backward
Tensor copy_to_ranks(const Tensor& x, Communicator& comm, Where where = Where::current());

/// y = sum over r of x_r                           all_reduce
///
///   grad_input_r = grad_output
///
/// DTypes:  all but bool; 16-bit ones accumulate in float32
Tensor reduce_from_ranks(const Tensor& x, Communicator& comm, Where where = Where::current());

/// x_r = the r-th of world_size equal slices of x along an axis, a view.
///
///   grad_input = [grad_output_0 | grad_output_1 | ...]      all_gather in backward
///
/// Throws:  ShapeError for an absent axis, or unless its extent is a multiple of world_size
Tensor scatter_to_ranks(const Tensor& x, Communicator& comm, std::int64_t axis = -1,
                        Where where = Where::current());

/// y = [x_0 | x_1 | ...] along an axis              all_gather
///
///   grad_input_r = slice r of grad_output
///
/// Throws:  ShapeError for an absent axis
Tensor gather_from_ranks(const Tensor& x, Communicator& comm, std::int64_t axis = -1,
                         Where where = Where::current());

}  // namespace ringrad
