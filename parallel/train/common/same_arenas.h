// Arenas of parameters (nn/arena.h) that all ranks cut alike.
//
// A rank on which others see a parameter, through a view or an array made of it, must not move the
// parameter. Then no rank moves it: arenas are sent and reduced as a whole. The same holds for a
// parameter that ranks have packed in different ways, or only some of them.

#pragma once

#include <vector>

#include "ringrad/nn/arena.h"
#include "ringrad/parallel/comm/communicator.h"

namespace ringrad {

/// As nn::make_arenas, with the same arenas on all ranks. All ranks must call it.
///
/// REQUIRES: all ranks hold the same model
/// Throws:   CollectiveError from the first use if a rank has packed a parameter in another way,
///           and some rank's has gaps
std::vector<nn::ParameterArena> make_same_arenas(const std::vector<Tensor>& parameters,
                                                 Communicator& comm,
                                                 const nn::MakeGradients& make_gradients,
                                                 Where where);

}  // namespace ringrad
