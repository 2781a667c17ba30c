// Connectionist temporal classification: the probability that a sequence of frames spells a target,
// whatever frames its labels fall on. CPU only.
//
// A path names one class per frame. It spells what remains after equal neighbours are merged and
// blanks dropped: a a - b b b - spells a b. The states of a path are the labels between blanks,
//
//     z = - z1 - z2 - ... zS -                              2 S + 1 states, - is the blank
//
// From state s a path stays, or goes to s + 1, or skips a blank between two different labels. Sums
// over all paths are recursions over the frames (x are the logarithms of the probabilities):
//
//     alpha_t(s) = x_t(z_s) + log sum of exp alpha_(t-1) over s, s - 1 and perhaps s - 2
//     beta_t(s)  = log sum of exp (beta_(t+1) + x_(t+1)(z)) over s, s + 1 and perhaps s + 2
//     loss       = -log sum of exp alpha_T over the last two states
//     occupancy of class c in frame t = sum over z_s = c of exp(alpha_t(s) + beta_t(s) + loss)
//
// The occupancy is the probability that a path which spells the target is at c in frame t, and the
// negative derivative of the loss in x_t(c).
//
// Extents: T frames, B batch, C classes, S labels of the longest target.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

struct CTCResult {
  Tensor losses;  ///< (B): infinity if there are too few frames to spell the target
  /// (T, B, C): 0 after an example's last frame; NaN for its labels if the loss is infinite.
  Tensor occupancies;
};

/// Shapes:  log_probabilities (T, B, C), targets (B, S), input_lengths (B), target_lengths (B)
/// DTypes:  log_probabilities of every floating dtype, computed in float64; others int32 or int64
/// Throws:  ShapeError, DTypeError; DeviceError on a GPU; IndexError if `blank` is outside [0, C),
///          or if a label within a target's length is the blank or outside [0, C); ValueError for a
///          length outside [0, T] or [0, S]
/// Paper:   Graves, Fernandez, Gomez, Schmidhuber 2006, "Connectionist temporal classification"
CTCResult ctc_loss(const Tensor& log_probabilities, const Tensor& targets,
                   const Tensor& input_lengths, const Tensor& target_lengths, std::int64_t blank,
                   Where where = Where::current());

}  // namespace ringrad::kernels
