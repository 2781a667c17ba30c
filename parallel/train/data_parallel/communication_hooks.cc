#include "ringrad/parallel/train/data_parallel/communication_hooks.h"

#include "ringrad/kernels/copy/copy.h"

namespace ringrad {

CommunicationHook compress_to(DType dtype, Where where) {
  RINGRAD_CHECK(dtype == DType::float16 || dtype == DType::bfloat16, DTypeError, where,
                "compress_to: the dtype must be float16 or bfloat16; got ", dtype);
  return [dtype, where](const GradientBucket& bucket, CommunicationStream& stream) {
    const auto average = [dtype, where, gradients = bucket.gradients](Communicator& comm) {
      const bool is_wide = size_bytes(gradients.dtype()) > size_bytes(dtype);
      const Tensor sent = is_wide ? kernels::cast(gradients, dtype, where) : gradients;
      comm.all_reduce(sent, ReduceOp::mean, where);
      if (is_wide) kernels::copy_(gradients, sent, where);
    };
    return stream.run(concat("bucket ", bucket.index, " in ", dtype), average, where);
  };
}

}  // namespace ringrad
