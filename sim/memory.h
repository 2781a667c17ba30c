// Memory: the memory of the simulated devices, and the rules of access to it.
//
// Device memory is ordinary memory that is inaccessible until it is opened. Each allocation has its
// own pages, and ends where its last page does (as far as CUDA's alignment of 256 bytes allows):
//
//     device 0  | no access | canary, 400 bytes, canary | no access | canary, 1 MiB | no access ...
//                guard page   one page                    guard page  257 pages
//
// A kernel opens an allocation by touching it: the fault handler checks that the memory is alive
// and reachable from the running device, opens it, and lets the kernel retry. It reports any other
// access as a fault: past the end, to freed memory, or to another device's memory without peer
// access. Addresses of freed memory are reused only when there are no others. An access by the host
// is also a fault, unless the scheduler runs on another host thread at that moment. The fault
// handler does not see accesses to the rest of an allocation's pages, up to 255 bytes after its end
// and 3840 bytes before its beginning. These bytes hold canaries, which are checked after each
// kernel. Under AddressSanitizer every byte is checked, for reads as well; under ThreadSanitizer
// all memory is open.
//
// New memory is filled as in unwritten.h.
//
// Thread-safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ringrad::sim {

class Memory {
 public:
  struct Allocation {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    int device = 0;
    bool live = true;
    bool imported = false;  // owned by another process
    bool freeing = false;   // will be released when its stream reaches the cudaFreeAsync
    bool pooled = false;    // allocated from the device's memory pool

    bool contains(const void* p) const { return p >= begin && p < begin + bytes; }
    bool is_within(std::uint64_t reach) const { return reach & reach_of(device, pooled); }
  };

  /// Throws: std::bad_alloc if the address space does not suffice
  Memory(int num_devices, std::size_t bytes_per_device);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// The memory that a kernel may touch, in bits: d for the memory of device d, 32 + d for that of
  /// its pool. Separate calls give other devices access to a pool.
  static constexpr std::uint64_t reach_of(int device, bool pooled) {
    return std::uint64_t{1} << (pooled ? device + 32 : device);
  }

  /// Null if the device does not have that many bytes left.
  void* allocate(int device, std::size_t bytes, bool pooled = false);
  /// False unless p is the beginning of a live allocation.
  bool release(void* p);
  /// Marks whether an allocation will be released later. False unless p is the beginning of a live
  /// allocation that was marked otherwise.
  bool mark_freeing(void* p, bool freeing = true);

  /// What another process needs to open an allocation.
  struct Export {
    std::int32_t process, file, device;
    std::uint64_t file_offset, begin_offset, bytes;
  };
  /// nullopt unless p lies in a live allocation that was made here.
  std::optional<Export> export_allocation(const void* p) const;
  /// Maps the same memory into this process; release() unmaps it. Null if it no longer exists.
  void* import_allocation(const Export& exported);

  /// The device to which an address belongs, allocated or not; nullopt for host memory.
  std::optional<int> device_of(const void* p) const;
  /// The allocation that holds p, live or freed.
  std::optional<Allocation> find(const void* p) const;
  /// Why [p, p + bytes) is not within one live allocation; empty if it is.
  std::string complaint(const void* p, std::size_t bytes) const;
  /// Where p lies: "0x7f..., 12 bytes after the end of an allocation of 400 bytes on device 0".
  std::string describe(const void* p, std::size_t bytes = 1) const;

  std::size_t bytes_in_use(int device) const;
  std::size_t bytes_per_device() const { return bytes_per_device_; }
  std::vector<Allocation> live_allocations() const;

  // --- Access ------------------------------------------------------------------------------------

  /// From now on a kernel may touch live memory within its reach; 0 closes all memory.
  void permit(std::uint64_t reach);
  /// For the fault handler: true if p may be touched now; the access must then be retried.
  bool open(const void* p);
  /// Describes forbidden writes around the open allocations; empty if there are none. Call it
  /// before permit() closes them.
  std::string check_canaries();

 private:
  // The addresses of one device; a file without a name is the memory behind them.
  struct Region {
    int file = -1;
    std::byte* begin = nullptr;
    std::byte* next = nullptr;  // where nothing has been allocated yet
    std::size_t in_use = 0;
    std::map<const std::byte*, Allocation> allocations;  // by first page
  };

  // The last allocation whose first page is not after p.
  const Allocation* find_at_or_before(const void* p) const;
  std::string describe_locked(const void* p, std::size_t bytes) const;
  bool protect(const Allocation& allocation, int protection) const;
  std::string find_damage() const;
  std::byte* find_addresses(Region& region, std::size_t bytes) const;

  const std::size_t bytes_per_device_;
  mutable std::mutex mutex_;
  std::vector<Region> regions_;
  std::uint64_t permitted_ = 0;
  std::set<const std::byte*> open_;  // first addresses
  std::string damage_;               // found just before allocations were closed
};

}  // namespace ringrad::sim
