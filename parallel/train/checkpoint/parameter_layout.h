// Which part of the whole model's tensors a rank's module has.

#pragma once

#include <map>
#include <string>

#include "ringrad/nn/module.h"
#include "ringrad/parallel/train/checkpoint/checkpoint_index.h"

namespace ringrad {

/// A rank's part of a tensor, or all of it.
struct ParameterLayout {
  std::string name;  ///< "model.0.weight"
  Shape shape;       ///< of the whole tensor
  TensorSlice slice;
  Spread spread;
};

/// The layouts of the module's parameters and buffers by their paths in it, named "<item>.<path>".
/// Tensors that parallel layers split are sharded; the others are `spread`.
std::map<std::string, ParameterLayout> layouts_of(const std::string& item, nn::Module& module,
                                                  Spread spread);

}  // namespace ringrad
