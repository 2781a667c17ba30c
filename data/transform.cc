#include "ringrad/data/transform.h"

#include "ringrad/data/random_stream.h"

namespace ringrad {

Generator SampleKeys::generator(std::size_t position) const {
  const std::int64_t before = earlier_draws.empty() ? 0 : earlier_draws[position];
  const std::uint64_t of_draw =
      before == 0 ? seed : mix_seed(seed, static_cast<std::uint64_t>(before), 0);
  return random_stream(of_draw, epoch, indices[position]);
}

void check_one_key_per_sample(const char* operation, const Tensor& batch, const SampleKeys& keys,
                              Where where) {
  RINGRAD_CHECK(batch.dims(where) > 0 && batch.shape()[0] == std::ssize(keys.indices), ShapeError,
                where, operation, ": there must be one index per sample; got ", keys.indices.size(),
                " indices and a batch of shape ", batch.shape());
}

Tensor apply(std::span<const Transform> transforms, Tensor input, const SampleKeys& keys,
             Where where) {
  check_one_key_per_sample("apply", input, keys, where);
  for (std::size_t k = 0; k < transforms.size(); ++k) {
    SampleKeys own = keys;
    own.seed = mix_seed(keys.seed, k, 0);
    input = transforms[k](input, own, where);
    check_one_key_per_sample("apply", input, keys, where);
  }
  return input;
}

}  // namespace ringrad
