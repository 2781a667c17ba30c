// The parameters that a training scheme has found in a module. A scheme trains those that required
// a gradient when it was made; any other one would be trained by each rank alone, and replicas
// would drift apart.

#pragma once

#include <cstddef>
#include <vector>

#include "ringrad/nn/module.h"

namespace ringrad {

class KnownParameters {
 public:
  /// `scheme` names the caller in messages.
  ///
  /// REQUIRES: the module outlives it
  KnownParameters(const char* scheme, const nn::Module& module);

  /// Throws: AutogradError if the module has more parameters now, or fewer, or if one that was
  ///         frozen requires a gradient now
  void check(Where where) const;

 private:
  const char* scheme_;
  const nn::Module& module_;
  std::size_t count_;
  std::vector<Tensor> frozen_;
};

}  // namespace ringrad
