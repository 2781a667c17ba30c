// The structs of DLPack 1.1, as its specification lays them out in memory. Only dlpack.cc and its
// test include this; programs include the protocol's own dlpack.h.

#pragma once

#include <cstdint>

struct DLPackVersion {
  std::uint32_t major, minor;
};

struct DLDevice {
  std::int32_t device_type;  // an enum in C
  std::int32_t device_id;
};

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null for row-major order
  std::uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

namespace ringrad::dlpack {

inline constexpr DLPackVersion kVersion{1, 1};
inline constexpr std::uint64_t kReadOnly = 1, kIsCopied = 2;  // flags
inline constexpr std::int32_t kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13;
inline constexpr std::uint8_t kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6;

static_assert(sizeof(DLTensor) == 48);
static_assert(sizeof(DLManagedTensor) == 64);
static_assert(sizeof(DLManagedTensorVersioned) == 80);

}  // namespace ringrad::dlpack
