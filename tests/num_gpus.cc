#include "ringrad/tests/num_gpus.h"

#include "ringrad/core/base/error.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/gpu/unusable_gpus.h"

namespace ringrad::testing {

int num_gpus() {
  RINGRAD_CHECK(unusable_gpus().empty(), DeviceError, Where::current(),
                "tests of GPUs: a GPU that is there must be usable; got ", unusable_gpus());
  return num_cuda_devices();
}

}  // namespace ringrad::testing
