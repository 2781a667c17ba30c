// DLPack: tensors that are shared with other libraries in one process, without a copy.
//
//     Tensor x = from_dlpack(theirs);                  their memory, freed when the last view ends
//     DLManagedTensorVersioned* ours = to_dlpack(x);   x's memory, until they call ours->deleter
//
// The structs are declared in the protocol's own dlpack.h, which programs that use them include.
// Both directions understand version 1 and the form before it (DLManagedTensor). In Python a
// capsule "dltensor_versioned" or "dltensor" carries the pointer.
//
// Each side sees what the other writes. Another library's writes do not count as changes: after
// them, call x.detach().mark_changed() if the tensor may be saved for a backward pass.
//
// On GPUs the producer's work must be ordered before the consumer's: to_dlpack() waits for the
// thread's current stream, and from_dlpack() expects that the memory is ready on it. The memory of
// simulated GPUs is not shared: it is host memory, but another library would use it as a GPU's.
//
// Specification: dmlc.github.io/dlpack, version 1.1

#pragma once

#include "ringrad/core/tensor.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace ringrad {

/// x's memory for another library, which must call the result's deleter once. Strides are kept, and
/// all CPU devices are DLPack's one CPU.
///
/// Throws:  AutogradError if x requires a gradient: share x.detach(); DeviceError for a tensor on a
///          simulated GPU
DLManagedTensorVersioned* to_dlpack(const Tensor& x, Where where = Where::current());
/// The form before version 1, for libraries that know no other.
DLManagedTensor* to_dlpack_unversioned(const Tensor& x, Where where = Where::current());

/// The memory of another library as a tensor, on cpu:0 or on its GPU. If this returns, the tensor
/// owns `theirs`: the deleter is called when the last tensor over the memory ends, by the thread
/// that ends it. If it throws, `theirs` is still the caller's.
///
/// Our tensors can be written, so memory that is flagged as read-only is copied.
///
/// Throws:  DataError for a null pointer, another major version, or CPU memory whose truth values
///          are other bytes than 0 and 1; DTypeError for an element type that the library lacks;
///          ShapeError for more than kMaxDims axes or impossible extents;
///          ValueError for negative strides or memory that is not aligned to its elements;
///          DeviceError for a device that this build lacks
Tensor from_dlpack(DLManagedTensorVersioned* theirs, Where where = Where::current());
Tensor from_dlpack(DLManagedTensor* theirs, Where where = Where::current());

/// Calls the deleter of a result of to_dlpack() that no consumer has taken.
void free_dlpack(DLManagedTensorVersioned* managed) noexcept;
void free_dlpack(DLManagedTensor* managed) noexcept;

}  // namespace ringrad
