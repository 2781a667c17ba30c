// Arenas of parameters (nn/arena.h) that all ranks cut alike.
//
// A rank must not move a parameter that other code sees, through a view or an array made of it. If
// one rank must not move a parameter, no rank moves it, because arenas are sent and reduced as a
// whole. The same holds for a parameter that ranks have packed in different ways, or that only some
// of them have packed.

#pragma once

#include <vector>

#include "ringrad/nn/arena.h"
#include "ringrad/parallel/comm/communicator.h"

namespace ringrad {

/// As nn::make_arenas, with the same arenas on all ranks. All ranks must call it.
///
/// REQUIRES: all ranks hold the same model
/// Throws:   CollectiveError from the first use if a rank has packed a parameter in another way,
///           and the parameter has gaps on some rank
std::vector<nn::ParameterArena> make_same_arenas(const std::vector<Tensor>& parameters,
                                                 Communicator& comm,
                                                 const nn::MakeGradients& make_gradients,
                                                 Where where);

}  // namespace ringrad
