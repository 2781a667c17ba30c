#include "ringrad/core/gpu/allocator_cuda.h"

#include <cuda_flavour.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "ringrad/core/base/locked.h"
#include "ringrad/core/gpu/block_pool.h"
#include "ringrad/core/gpu/cuda_check.h"

namespace ringrad {
namespace {

constexpr std::size_t kRound = 512;  // block sizes are multiples of this
constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kSmallRequest = kMiB, kSmallSegment = 2 * kMiB;
constexpr std::size_t kMiddleRequest = 10 * kMiB, kMiddleSegment = 20 * kMiB;

std::size_t round_up(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

std::size_t segment_bytes(std::size_t bytes) {
  if (bytes <= kSmallRequest) return kSmallSegment;
  if (bytes < kMiddleRequest) return kMiddleSegment;
  return round_up(bytes, 2 * kMiB);
}

// The rest of a block must be worth keeping: a large block with small pieces cut off serves no
// large request.
std::size_t smallest_rest(const PoolKey& pool) { return pool.small ? kRound : kSmallRequest; }

// A freed block that its other streams may still use: an event for each.
struct Pending {
  Block* block;
  std::vector<Event> events;
};

bool caching_by_default() {
  const char* asked = std::getenv("RINGRAD_CUDA_CACHING");
  return asked ? std::string_view(asked) != "0" : !kSimulatedCuda;
}

thread_local PrivatePool* private_pool = nullptr;

// One device's memory. With caching off, a block is one allocation of the runtime, and is not
// divisible.
class CudaAllocator {
 public:
  explicit CudaAllocator(Device device) : device_(device) {}

  void* allocate(std::size_t bytes, Where where);
  void deallocate(void* address);
  void record_stream(void* address, const Stream& stream, Where where);
  void empty_cache();
  void end_private_pool(const PrivatePool* owner);
  std::string report() const;

  // The mutex guards everything below.
  mutable std::mutex mutex;
  BlockPool blocks;
  AllocatorStats stats;
  std::size_t limit = 0;
  bool caching = caching_by_default();

 private:
  PoolKey pool_for(std::size_t bytes) const;
  Block* take_from_runtime(const PoolKey& pool, std::size_t bytes, std::size_t asked, Where where);
  void* runtime_allocate(const PoolKey& pool, std::size_t bytes, Where where);
  void give_back(Block* block);
  void collect_pending(bool wait);
  void free_segments(const void* owner);

  Device device_;
  std::deque<Pending> pending_;
  std::vector<Block*> retired_;  // freed blocks of private pools that must not be reused
};

PoolKey CudaAllocator::pool_for(std::size_t bytes) const {
  const bool is_private = private_pool && private_pool->device() == device_;
  return {is_private ? private_pool : nullptr, current_stream(device_).handle(),
          bytes <= kSmallRequest};
}

void* CudaAllocator::runtime_allocate(const PoolKey& pool, std::size_t bytes, Where where) {
  const auto reserved = static_cast<std::size_t>(stats.reserved_bytes);
  if (limit && (bytes > limit || reserved > limit - bytes)) return nullptr;
  void* address = nullptr;
  const cudaError_t status = caching || pool.owner ? cudaMalloc(&address, bytes)
                                                   : cudaMallocAsync(&address, bytes, pool.stream);
  if (status == cudaErrorMemoryAllocation)
    cudaGetLastError();
  else
    RINGRAD_CUDA_CHECK(status, where);
  return address;
}

Block* CudaAllocator::take_from_runtime(const PoolKey& pool, std::size_t bytes, std::size_t asked,
                                        Where where) {
  const std::size_t size = caching ? segment_bytes(bytes) : asked;
  void* address = runtime_allocate(pool, size, where);
  if (!address) {  // free unused memory and try again
    collect_pending(/*wait=*/!pool.owner);
    if (Block* block = blocks.take(pool, bytes, smallest_rest(pool))) return block;
    free_segments(nullptr);
    address = runtime_allocate(pool, size, where);
  }
  RINGRAD_CHECK(address, OutOfMemoryError, where, "allocate: ", asked,
                " bytes must be available on ", device_, "; got none\n", report());
  stats.reserved_bytes += static_cast<std::int64_t>(size);
  ++stats.num_system_allocations;
  return blocks.add({.pool = pool,
                     .address = static_cast<std::byte*>(address),
                     .bytes = size,
                     .divisible = caching,
                     .stream_owner = current_stream(device_).owner()},
                    caching ? bytes : size, smallest_rest(pool));
}

// Returns a whole segment to the runtime.
void CudaAllocator::give_back(Block* block) {
  const bool ordered = !block->divisible && !block->pool.owner;
  const cudaError_t status =
      ordered ? cudaFreeAsync(block->address, block->pool.stream) : cudaFree(block->address);
  if (status != cudaSuccess) report_cuda_error(status, "cudaFree");
  stats.reserved_bytes -= static_cast<std::int64_t>(block->bytes);
  blocks.remove(block);
}

void CudaAllocator::free_segments(const void* owner) {
  for (Block* block : blocks.free_segments(owner)) give_back(block);
}

void CudaAllocator::collect_pending(bool wait) {
  if (wait && !pending_.empty()) RINGRAD_CUDA_CHECK(cudaDeviceSynchronize(), Where::current());
  // Oldest first. A stream that has not done one event has not done a later one either.
  std::vector<Stream> busy;
  std::erase_if(pending_, [&](const Pending& pending) {
    for (std::size_t i = 0; i < pending.events.size(); ++i) {
      const Stream& stream = pending.block->streams[i];
      if (std::ranges::find(busy, stream) == busy.end()) {
        if (pending.events[i].is_done()) continue;
        busy.push_back(stream);
      }
      return false;
    }
    blocks.release(pending.block);
    return true;
  });
}

void* CudaAllocator::allocate(std::size_t bytes, Where where) {
  const DeviceGuard guard(device_, where);
  const std::scoped_lock lock(mutex);
  const PoolKey pool = pool_for(bytes);
  if (!pending_.empty() && !pool.owner) collect_pending(/*wait=*/false);
  const std::size_t rounded = round_up(bytes, kRound);
  Block* block = caching ? blocks.take(pool, rounded, smallest_rest(pool)) : nullptr;
  if (!block) block = take_from_runtime(pool, rounded, bytes, where);
  block->where = where;
  ++stats.num_allocations;
  stats.allocated_bytes += static_cast<std::int64_t>(block->bytes);
  stats.peak_allocated_bytes = std::max(stats.peak_allocated_bytes, stats.allocated_bytes);
  return block->address;
}

void CudaAllocator::deallocate(void* address) {
  const DeviceGuard guard(device_);
  const std::scoped_lock lock(mutex);
  Block* block = blocks.find(address);
  stats.allocated_bytes -= static_cast<std::int64_t>(block->bytes);
  // Events recorded in a capture have no meaning outside it, so such a block stays as it is until
  // the pool ends.
  if (block->pool.owner)
    return block->streams.empty() ? blocks.release(block) : retired_.push_back(block);
  std::vector<Event> events;
  for (const Stream& stream : block->streams) events.emplace_back(stream);
  if (!block->divisible) {
    for (const Event& event : events) event.block(Stream(device_, block->pool.stream));
    give_back(block);
  } else if (events.empty()) {
    blocks.release(block);
  } else {
    pending_.push_back({block, std::move(events)});
  }
}

void CudaAllocator::record_stream(void* address, const Stream& stream, Where where) {
  const std::scoped_lock lock(mutex);
  Block* block = blocks.find(address);
  RINGRAD_CHECK(block && !block->free, ValueError, where,
                "record_stream: the memory must be an allocated block; got ", address);
  const bool known = std::ranges::count(block->streams, stream) > 0;
  if (!known && stream.handle() != block->pool.stream) block->streams.push_back(stream);
}

void CudaAllocator::empty_cache() {
  const DeviceGuard guard(device_);
  const std::scoped_lock lock(mutex);
  collect_pending(/*wait=*/true);
  free_segments(nullptr);
}

// Blocks that are still allocated from the pool move to the common pools.
void CudaAllocator::end_private_pool(const PrivatePool* owner) {
  const DeviceGuard guard(device_);
  const std::scoped_lock lock(mutex);
  std::erase_if(retired_, [&](Block* block) {
    if (block->pool.owner != owner) return false;
    blocks.release(block);
    return true;
  });
  free_segments(owner);
  blocks.disown(owner);
}

std::string CudaAllocator::report() const {
  constexpr std::size_t kShown = 8;
  struct Holder {
    std::string what;
    std::size_t bytes = 0, blocks = 0;
  };
  std::map<std::string, Holder> holders;
  std::size_t largest_free = 0;
  blocks.for_each([&](const Block& block) {
    if (block.free) {
      largest_free = std::max(largest_free, block.bytes);
      return;
    }
    const std::string what =
        concat(block.operation, *block.operation ? " at " : "", to_string(block.where));
    Holder& holder = holders[what];
    holder.what = what;
    holder.bytes += block.bytes;
    ++holder.blocks;
  });
  std::vector<Holder> sorted;
  for (const auto& [what, holder] : holders) sorted.push_back(holder);
  std::ranges::stable_sort(sorted, std::greater(), &Holder::bytes);
  std::ostringstream out;
  out << device_ << ": " << stats.allocated_bytes << " bytes allocated, " << stats.reserved_bytes
      << " reserved, largest free block " << largest_free;
  if (limit) out << ", limit " << limit;
  for (std::size_t i = 0; i < std::min(kShown, sorted.size()); ++i)
    out << "\n  " << sorted[i].bytes << " bytes in " << sorted[i].blocks
        << (sorted[i].blocks == 1 ? " block by " : " blocks by ") << sorted[i].what;
  if (sorted.size() > kShown) out << "\n  and " << sorted.size() - kShown << " more";
  return std::move(out).str();
}

// Never destroyed: tensors in static storage may outlive everything else.
CudaAllocator& allocator_of(Device device) {
  static const auto allocators = [] {
    std::array<CudaAllocator*, kMaxCudaDevices> made;
    for (int i = 0; i < kMaxCudaDevices; ++i)
      made[static_cast<unsigned>(i)] = new CudaAllocator(Device(DeviceType::cuda, i));
    return made;
  }();
  RINGRAD_ASSERT(device.is_cuda());
  return *allocators[static_cast<unsigned>(device.index)];
}

}  // namespace

void* cuda_allocate(std::size_t bytes, Device device, Where where) {
  if (bytes > 0) return allocator_of(device).allocate(bytes, where);
  const DeviceGuard exists(device, where);
  return nullptr;
}

void cuda_deallocate(void* block, Device device) noexcept {
  if (!block) return;
  try {
    allocator_of(device).deallocate(block);
  } catch (const Error&) {
    // The device has failed; the next call that can throw reports it. The block's memory is lost.
  }
}

void record_stream(void* block, const Stream& stream, Where where) {
  if (block) allocator_of(stream.device()).record_stream(block, stream, where);
}

void name_block(void* block, Device device, const char* operation) {
  const Locked allocator(allocator_of(device));
  Block* found = allocator->blocks.find(block);
  if (found && !*found->operation) found->operation = operation;
}

AllocatorStats allocator_stats(Device device) {
  return device.is_cpu() ? allocator_stats() : Locked(allocator_of(device))->stats;
}

void reset_peak_stats(Device device) {
  if (device.is_cpu()) return reset_peak_stats();
  const Locked allocator(allocator_of(device));
  allocator->stats.peak_allocated_bytes = allocator->stats.allocated_bytes;
}

void empty_cache(Device device) {
  device.is_cpu() ? empty_cache() : allocator_of(device).empty_cache();
}

void set_memory_limit(Device device, std::size_t bytes) {
  if (device.is_cpu()) return set_memory_limit(bytes);
  Locked(allocator_of(device))->limit = bytes;
}

void set_cuda_caching(bool caching) {
  for (int i = 0; i < num_cuda_devices(); ++i)
    Locked(allocator_of(Device(DeviceType::cuda, i)))->caching = caching;
}

bool is_cuda_caching() {
  return RINGRAD_GPUS && Locked(allocator_of(Device(DeviceType::cuda, 0)))->caching;
}

std::string memory_report(Device device) {
  if (device.is_cpu()) return concat(device, ": ", allocator_stats().allocated_bytes, " bytes");
  return Locked(allocator_of(device))->report();
}

PrivatePool::PrivatePool(Device device) : device_(device) {}

PrivatePool::~PrivatePool() { allocator_of(device_).end_private_pool(this); }

PrivatePool::Scope::Scope(PrivatePool& pool) : ScopedValue(private_pool, &pool) {}

}  // namespace ringrad
