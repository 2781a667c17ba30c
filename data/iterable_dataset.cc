#include "ringrad/data/iterable_dataset.h"

namespace ringrad {

std::int64_t SampleStream::skip(std::int64_t count, Where where) {
  for (std::int64_t passed = 0; passed < count; ++passed)
    if (!next(where)) return passed;
  return count;
}

}  // namespace ringrad
