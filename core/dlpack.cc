#include "ringrad/core/dlpack.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "ringrad/core/dlpack_abi.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/transfer.h"
#include "ringrad/core/view.h"

namespace ringrad {
namespace {

using namespace dlpack;

// In the order of DType.
constexpr std::array<DLDataType, kNumDTypes> kTypes{{{kFloat, 32, 1},
                                                     {kFloat, 64, 1},
                                                     {kFloat, 16, 1},
                                                     {kBfloat, 16, 1},
                                                     {kInt, 32, 1},
                                                     {kInt, 64, 1},
                                                     {kUInt, 8, 1},
                                                     {kBool, 8, 1}}};

DType dtype_of_theirs(const DLDataType& theirs, Where where) {
  const auto known = std::find_if(kTypes.begin(), kTypes.end(), [&](const DLDataType& type) {
    return type.code == theirs.code && type.bits == theirs.bits && type.lanes == theirs.lanes;
  });
  RINGRAD_CHECK(known != kTypes.end(), DTypeError, where,
                "from_dlpack: the element type must be float32, float64, float16, bfloat16, int32, "
                "int64, uint8 or bool; got code ",
                int{theirs.code}, ", ", int{theirs.bits}, " bits, ", theirs.lanes, " lanes");
  return static_cast<DType>(known - kTypes.begin());
}

Device device_of_theirs(const DLDevice& theirs, Where where) {
  if (theirs.device_type == kCpu || theirs.device_type == kCudaHost) return Device();
  const bool is_cuda = theirs.device_type == kCuda || theirs.device_type == kCudaManaged;
  RINGRAD_CHECK(RINGRAD_GPUS && is_cuda && !is_cuda_simulated(), DeviceError, where,
                "from_dlpack: the memory must be the CPU's",
                is_cuda_simulated() ? " in this build, whose GPUs are simulated"
                : RINGRAD_GPUS      ? " or a GPU's"
                                    : " in this CPU-only build",
                "; got device type ", theirs.device_type, ", number ", theirs.device_id);
  return Device(DeviceType::cuda, theirs.device_id, where);
}

Shape extents_of(const DLTensor& theirs, DType dtype, Where where) {
  RINGRAD_CHECK(theirs.ndim >= 0 && theirs.ndim <= kMaxDims, ShapeError, where,
                "from_dlpack: a tensor must have 0 to ", kMaxDims, " axes; got ", theirs.ndim);
  RINGRAD_CHECK(theirs.ndim == 0 || theirs.shape, DataError, where,
                "from_dlpack: a tensor with axes must have a shape; got null");
  const Shape shape(
      std::span<const std::int64_t>(theirs.shape, static_cast<std::size_t>(theirs.ndim)));
  check_extents("from_dlpack", shape, size_bytes(dtype), where);
  return shape;
}

// The strides, and the number of elements from the first to the last inclusive.
std::pair<Strides, std::int64_t> strides_of(const DLTensor& theirs, const Shape& shape, DType dtype,
                                            Where where) {
  if (!theirs.strides) return {strides_for(shape), shape.numel()};
  const Strides strides(
      std::span<const std::int64_t>(theirs.strides, static_cast<std::size_t>(theirs.ndim)));
  RINGRAD_CHECK(std::all_of(strides.begin(), strides.end(), [](auto s) { return s >= 0; }),
                ValueError, where, "from_dlpack: strides must not be negative; got ", strides);
  if (shape.numel() == 0) return {strides_for(shape), 0};
  std::int64_t last = 0;
  bool fits = true;
  for (int i = 0; i < shape.size(); ++i) {
    std::int64_t distance = 0;
    fits = fits && !__builtin_mul_overflow(shape[i] - 1, strides[i], &distance) &&
           !__builtin_add_overflow(last, distance, &last);
  }
  fits = fits && last < std::numeric_limits<std::int64_t>::max() /
                            static_cast<std::int64_t>(size_bytes(dtype));
  RINGRAD_CHECK(fits, ShapeError, where,
                "from_dlpack: the number of bytes must fit in 63 bits; got shape ", shape,
                " with strides ", strides);
  return {strides, last + 1};
}

template <class Managed>
Tensor tensor_over(Managed* theirs, bool is_read_only, Where where) {
  const DLTensor& tensor = theirs->dl_tensor;
  const DType dtype = dtype_of_theirs(tensor.dtype, where);
  const Device device = device_of_theirs(tensor.device, where);
  const Shape shape = extents_of(tensor, dtype, where);
  const auto [strides, span] = strides_of(tensor, shape, dtype, where);
  std::byte* const data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  RINGRAD_CHECK(span == 0 || tensor.data, DataError, where,
                "from_dlpack: a tensor with elements must have memory; got null");
  RINGRAD_CHECK(span == 0 || reinterpret_cast<std::uintptr_t>(data) % size_bytes(dtype) == 0,
                ValueError, where, "from_dlpack: the memory must be aligned to its elements of ",
                size_bytes(dtype), " bytes; got an address at byte ",
                reinterpret_cast<std::uintptr_t>(data) % size_bytes(dtype), " of one");
  const Options options{.dtype = dtype, .device = device};
  if (is_read_only) {
    const Tensor memory = empty({span}, options, where);
    copy_bytes(memory.raw_data(), device, data, device, memory.storage()->bytes(), where);
    Tensor result = view::as_strided(memory, shape, strides, 0, where);
    check_truth_values("from_dlpack", result, where);
    free_dlpack(theirs);
    return result;
  }
  // Everything is allocated before the owner takes over, so that a failure leaves `theirs` alone.
  auto release = std::make_shared<Managed*>(nullptr);
  const std::shared_ptr<void> owner(release.get(), [release](void*) {
    if (*release) free_dlpack(*release);
  });
  const Tensor memory = from_memory(data, {span}, options, owner, where);
  Tensor result = view::as_strided(memory, shape, strides, 0, where);
  check_truth_values("from_dlpack", result, where);
  *release = theirs;
  return result;
}

// What a consumer holds: the struct, its lists, and the memory itself: the tensor may get another
// by set_data().
template <class Managed>
struct Export {
  Managed managed{};
  std::array<std::int64_t, kMaxDims> shape{}, strides{};
  Ref<Storage> storage;
};

template <class Managed>
Managed* managed_of(const Tensor& x, Where where) {
  RINGRAD_CHECK(!x.requires_grad(where), AutogradError, where,
                "to_dlpack: the tensor must not require a gradient, which the other library would "
                "not record; got one that does; share detach()");
  RINGRAD_CHECK(
      x.device().is_cpu() || !is_cuda_simulated(), DeviceError, where,
      "to_dlpack: the tensor must be on a CPU, as the GPUs of this build are simulated; got ",
      x.device());
  if (x.device().is_cuda()) current_stream(x.device()).synchronize(where);
  auto shared = std::make_unique<Export<Managed>>();
  shared->storage = x.storage();
  std::copy(x.shape().begin(), x.shape().end(), shared->shape.begin());
  std::copy(x.strides().begin(), x.strides().end(), shared->strides.begin());
  Managed& managed = shared->managed;
  managed.dl_tensor = {
      .data = x.numel() > 0 ? x.raw_data() : nullptr,
      .device = {x.device().is_cuda() ? kCuda : kCpu, x.device().is_cuda() ? x.device().index : 0},
      .ndim = x.dims(),
      .dtype = kTypes[static_cast<std::size_t>(x.dtype())],
      .shape = shared->shape.data(),
      .strides = shared->strides.data(),
      .byte_offset = 0};
  managed.manager_ctx = shared.get();
  managed.deleter = [](Managed* self) { delete static_cast<Export<Managed>*>(self->manager_ctx); };
  return &shared.release()->managed;
}

}  // namespace

DLManagedTensorVersioned* to_dlpack(const Tensor& x, Where where) {
  auto* const managed = managed_of<DLManagedTensorVersioned>(x, where);
  managed->version = kVersion;
  return managed;
}

DLManagedTensor* to_dlpack_unversioned(const Tensor& x, Where where) {
  return managed_of<DLManagedTensor>(x, where);
}

Tensor from_dlpack(DLManagedTensorVersioned* theirs, Where where) {
  RINGRAD_CHECK(theirs, DataError, where, "from_dlpack: there must be a tensor; got null");
  // The version is the first member in every version; the others may lie elsewhere.
  RINGRAD_CHECK(theirs->version.major == kVersion.major, DataError, where,
                "from_dlpack: DLPack's major version must be ", kVersion.major, "; got ",
                theirs->version.major, '.', theirs->version.minor);
  return tensor_over(theirs, (theirs->flags & kReadOnly) != 0, where);
}

Tensor from_dlpack(DLManagedTensor* theirs, Where where) {
  RINGRAD_CHECK(theirs, DataError, where, "from_dlpack: there must be a tensor; got null");
  return tensor_over(theirs, false, where);
}

void free_dlpack(DLManagedTensorVersioned* managed) noexcept {
  if (managed->deleter) managed->deleter(managed);
}

void free_dlpack(DLManagedTensor* managed) noexcept {
  if (managed->deleter) managed->deleter(managed);
}

}  // namespace ringrad
