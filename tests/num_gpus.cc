#include "tests/num_gpus.h"

#include "core/error.h"
#include "core/stream.h"
#include "core/unusable_gpus.h"

namespace ringrad::testing {

int num_gpus() {
  RINGRAD_CHECK(unusable_gpus().empty(), DeviceError, Where::current(),
                "tests of GPUs: a GPU that is there must be usable; got ", unusable_gpus());
  return num_cuda_devices();
}

}  // namespace ringrad::testing
