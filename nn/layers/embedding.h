// Embedding: a table of vectors, looked up by index.

#pragma once

#include "ringrad/nn/module.h"

namespace ringrad::nn {

/// Parameters:  weight (num_embeddings, features) from N(0, 1)
/// Shapes:      int32 or int64 indices (...)  ->  (..., features)
/// Throws:      IndexError from forward for an index outside the table
class Embedding : public Module {
 public:
  Embedding(std::int64_t num_embeddings, std::int64_t features, Where where = Where::current());

  Tensor forward(const Tensor& indices, Where at = Where::current()) override;
  std::string describe() const override;

  Tensor weight;
};

}  // namespace ringrad::nn
