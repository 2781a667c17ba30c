#include "ringrad/nn/layers/embedding.h"

#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/index/embedding.h"
#include "ringrad/core/random/random.h"

namespace ringrad::nn {

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t features, Where where) {
  RINGRAD_CHECK(num_embeddings > 0 && features > 0, ValueError, where,
                "Embedding: counts must be positive; got ", num_embeddings, " and ", features);
  weight = parameter("weight", empty({num_embeddings, features}));
  const NoGradGuard guard;
  normal_(weight, 0, 1);
}

Tensor Embedding::forward(const Tensor& indices, Where at) {
  return embedding(weight, indices, at);
}

std::string Embedding::describe() const {
  return concat("Embedding(", weight.shape()[0], ", ", weight.shape()[1], ')');
}

}  // namespace ringrad::nn
