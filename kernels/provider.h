// Who computes on a GPU: our own kernels (native), or NVIDIA's libraries (vendor).
//
//     set_kernel_provider("matmul", KernelProvider::native);
//     RINGRAD_KERNELS=native            from outside, for all;  or  matmul=native,conv2d=vendor
//
// Both stand behind the same contract, so they can be put side by side. Without a word the vendor's are
// used where they are faster and there: the libraries are looked for when the first operator needs them,
// and a machine without them runs on our own. On simulated GPUs there are only our own. While several streams
// share a GPU, batch norm there is our own, whatever was asked for (shared_gpu.h).

#pragma once

#include <cstdint>
#include <string_view>

#include "core/error.h"
#include "kernels/vendor.h"

namespace ringrad {

enum class KernelProvider : std::uint8_t { native, vendor };

/// operation: "matmul", "conv2d", "batch_norm", or "all".
/// Throws ValueError for another name, or for the vendor's kernels where their library is not to be had;
/// the message says why.
void set_kernel_provider(std::string_view operation, KernelProvider provider,
                         Where where = Where::current());

/// The one that the operation uses now. Throws ValueError for another name, or for a RINGRAD_KERNELS that
/// makes no sense.
KernelProvider kernel_provider(std::string_view operation, Where where = Where::current());

namespace kernels {

/// True if the vendor's kernels are chosen for the operation, and there.
bool uses_vendor(Provided operation, Where where);

/// True if the vendor's kernels for the operation may run on a GPU that is, or is not, shared: those of batch
/// norm may wait for each other, and never end beside others that wait.
bool may_use_vendor(Provided operation, bool is_shared);

}  // namespace kernels
}  // namespace ringrad
