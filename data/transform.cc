#include "data/transform.h"

#include "data/random_stream.h"

namespace ringrad {

Generator SampleKeys::generator(std::size_t position) const {
  return random_stream(seed, epoch, indices[position]);
}

Tensor apply(std::span<const Transform> transforms, Tensor input, const SampleKeys& keys,
             Where where) {
  RINGRAD_CHECK(input.dims() > 0 && input.shape()[0] == std::ssize(keys.indices), ShapeError, where,
                "apply: there must be one index per sample; got ", keys.indices.size(),
                " indices and a batch of shape ", input.shape());
  for (std::size_t k = 0; k < transforms.size(); ++k) {
    const SampleKeys own{keys.indices, keys.epoch, mix_seed(keys.seed, k, 0)};
    input = transforms[k](input, own, where);
  }
  return input;
}

}  // namespace ringrad
