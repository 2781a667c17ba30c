#include "ringrad/parallel/comm/host/thread_communicator.h"

#include <sched.h>

#include <atomic>
#include <new>
#include <string>
#include <thread>

#include "ringrad/parallel/comm/memory/program_cache.h"

namespace ringrad {
namespace {

constexpr std::size_t kAlignment = 128;

class ThreadMemory final : public GroupMemory {
 public:
  explicit ThreadMemory(int world_size)
      : shared_(static_cast<std::byte*>(operator new (shared_bytes(world_size),
                                                      std::align_val_t{kAlignment}))) {
    make_shared(shared_, world_size);
  }
  ~ThreadMemory() override { operator delete (shared_, std::align_val_t{kAlignment}); }
  ThreadMemory(const ThreadMemory&) = delete;
  ThreadMemory& operator=(const ThreadMemory&) = delete;

  std::byte* shared() const override { return shared_; }
  std::uintptr_t base_of(int) const override { return 0; }
  bool is_visible(const void*) const override { return true; }
  std::shared_ptr<std::byte> allocate(std::size_t bytes, Where where) override {
    std::size_t space = bytes + kAlignment;  // tensors are aligned to less
    const Tensor memory = empty({static_cast<std::int64_t>(space)},
                                {.dtype = DType::uint8, .device = Device()}, where);
    void* aligned = memory.raw_data();
    std::align(kAlignment, bytes, aligned, space);
    return {static_cast<std::byte*>(aligned), [memory](std::byte*) {}};
  }
  bool has_died(int) const override { return false; }
  bool has_any_died() const override { return false; }
  bool is_one_process() const override { return true; }
  int num_processors() const override {
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof mine, &mine) == 0) return CPU_COUNT(&mine);
    return static_cast<int>(std::thread::hardware_concurrency());
  }

 private:
  std::byte* shared_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_group(int world_size,
                                                             const GroupOptions& options,
                                                             Where where) {
  static std::atomic<int> num_groups = 0;
  const std::string group = concat("threads", num_groups++);
  const auto programs = make_programs(world_size, options, where);
  const auto memory = std::make_shared<ThreadMemory>(world_size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < world_size; ++rank)
    ranks.push_back(make_shared_communicator(group, rank, world_size, memory, programs, options));
  return ranks;
}

}  // namespace ringrad
