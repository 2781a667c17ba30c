// SharedMemory: the shared memory of one block.
//
//     0                              48 KiB                        275 KiB
//     [ static arrays, in order of ... | dynamic shared memory          ]
//       their first use in the block
//
// Each block finds it filled as in unwritten.h, since hardware does not clear it either.

#pragma once

#include <cstddef>
#include <vector>

namespace ringrad::sim {

inline constexpr std::size_t kStaticSharedBytes = 48 * 1024;
inline constexpr std::size_t kMaxSharedBytes = 227 * 1024;  // as on sm_90, static and dynamic

class SharedMemory {
 public:
  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Begins a block, which has no arrays yet and may use `limit_bytes` in total.
  void begin_block(std::size_t dynamic_bytes, std::size_t limit_bytes);

  /// The array declared at this place in the source, identified by an address that is unique to the
  /// place; null if it does not fit.
  void* static_array(const void* declaration, std::size_t bytes, std::size_t alignment);

  void* dynamic();

 private:
  struct Array {
    const void* declaration;
    std::byte* memory;
  };

  void reserve();

  std::byte* memory_ = nullptr;
  std::vector<Array> arrays_;
  std::size_t static_bytes_ = 0;
  std::size_t dynamic_bytes_ = 0;
  std::size_t limit_bytes_ = 0;
  bool dynamic_used_ = false;
};

}  // namespace ringrad::sim
