// The parameters that a training scheme has found in a module. A scheme trains those that required
// a gradient when it was made; any other one would be trained by each rank alone, and replicas
// would drift apart. Frozen parameters may be added.

#pragma once

#include <unordered_map>
#include <vector>

#include "ringrad/nn/module.h"

namespace ringrad {

/// The parameters that require a gradient.
std::vector<Tensor> trained_parameters(const nn::Module& module);

class KnownParameters {
 public:
  /// `scheme` names the caller in messages.
  ///
  /// REQUIRES: the module outlives it and is not moved
  KnownParameters(const char* scheme, const nn::Module& module);

  /// Throws: AutogradError if a parameter that was added or frozen requires a gradient now
  void check(Where where) const;

 private:
  const char* scheme_;
  const nn::Module& module_;
  std::vector<Tensor> frozen_;
  std::unordered_map<const TensorImpl*, Tensor> trained_;
};

}  // namespace ringrad
