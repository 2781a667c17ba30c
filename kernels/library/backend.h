// Chooses the kernels that a GPU runs: our own (native) or those of NVIDIA's libraries (vendor).
//
//     set_kernel_backend("matmul", KernelBackend::native);
//     RINGRAD_KERNELS=native      for all, from the environment;  or  matmul=native,conv2d=vendor
//
// Both implement the same contract, so they can be compared. By default the vendor's kernels are
// used where they are faster and available: the first operator that needs a library looks for it,
// and a machine without it runs our own kernels. Simulated GPUs have only our own. While several
// streams share a GPU, batch norm and attention there always use our own (shared_gpu.h).

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ringrad/core/base/error.h"
#include "ringrad/kernels/library/vendor.h"

namespace ringrad {

/// Ringrad's own kernels, or those of cuBLAS and cuDNN.
enum class KernelBackend : std::uint8_t { native, vendor };

/// operation: "matmul", "conv2d", "batch_norm", "attention", or "all".
/// Throws ValueError for another name, or if the vendor's library is not available; the message
/// says why.
void set_kernel_backend(std::string_view operation, KernelBackend backend,
                        Where where = Where::current());

/// The backend that the operation uses now. Throws ValueError for another name, or for an invalid
/// RINGRAD_KERNELS.
KernelBackend kernel_backend(std::string_view operation, Where where = Where::current());

/// What computes large matrix products and convolutions on CPUs: "oneDNN 2.6.3", say; or, in a
/// library without oneDNN (has_onednn.h), "own loops".
std::string cpu_products();

namespace kernels {

/// True if the vendor's kernels are chosen for the operation and are available.
bool uses_vendor(Provided operation, Where where);

/// True if the vendor's kernels for the operation may run on a GPU that is, or is not, shared.
/// Those of batch norm and attention may wait for each other, and next to other waiting kernels
/// they may never end.
bool may_use_vendor(Provided operation, bool is_shared);

}  // namespace kernels
}  // namespace ringrad
