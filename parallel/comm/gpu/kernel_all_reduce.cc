#include "ringrad/parallel/comm/gpu/kernel_all_reduce.h"

#include <algorithm>
#include <atomic>
#include <exception>

namespace ringrad {
namespace {

// Below this size a rank reads the data of all ranks in less time than two more flags take: what
// vendors' libraries choose for a few GPUs with fast links. Not measured on several GPUs.
constexpr std::size_t kOneShotBytes = 512 << 10;

// Elements of 16 bytes that a block is given before another one is worth while: two for each
// thread.
constexpr std::size_t kPacksPerBlock = 2 * cuda::kMaxKernelThreads;

std::atomic<std::uint64_t> num_launches = 0;

}  // namespace

KernelAllReduce::KernelAllReduce(RankSession& session, DeviceLinks& links, Device device,
                                 LateNote* note, Where where)
    : session_(session),
      links_(links),
      device_(device),
      stream_(device, where),
      note_(note),
      number_(session.options().first_count) {
  const int n = session.world_size();
  is_possible_ = true;
  num_blocks_ = cuda::kMaxKernelBlocks;
  for (int r = 0; r < n; ++r) {
    const DeviceLinks::KernelPeer peer = links.kernel_peer(r);
    is_possible_ = is_possible_ && peer.mailbox != nullptr && links.all_have_access();
    int sharing = 0;
    for (int other = 0; other < n; ++other) sharing += links.share_gpu(other, r);
    num_blocks_ = std::min(num_blocks_, peer.resident_blocks / sharing);
    if (r == session.rank()) is_alone_ = sharing == 1;
    // A GPU runs one process at a time: a kernel that spins for another process's spends its time
    // slice in vain.
    if (sharing > 1 && !session.memory()->is_one_process()) is_possible_ = false;
  }
  is_possible_ = is_possible_ && num_blocks_ > 0;
}

DeviceAlgorithm KernelAllReduce::algorithm_for(const CollectiveCall& call) const {
  if (!is_possible_ || call.dtype == DType::bool_) return DeviceAlgorithm::plan;
  const std::size_t bytes = static_cast<std::size_t>(call.count) * size_bytes(call.dtype);
  const std::size_t capacity = session_.options().kernel_bytes;
  DeviceAlgorithm algorithm = session_.options().device_all_reduce;
  if (algorithm == DeviceAlgorithm::automatic)
    algorithm = bytes * static_cast<std::size_t>(session_.world_size()) <= kOneShotBytes
                    ? DeviceAlgorithm::one_shot_kernel
                    : DeviceAlgorithm::two_shot_kernel;
  const bool has_room =
      bytes <= capacity &&
      cuda::bytes_in_mailbox(algorithm, call.dtype, call.count) <= cuda::mailbox_half(capacity);
  return has_room ? algorithm : DeviceAlgorithm::plan;
}

// Ranks have shown each other their streams. A rank whose kernel comes after another one's on a
// stream of both would wait for it, while that one waits for this. Streams of different processes
// are never the same.
bool KernelAllReduce::all_can_run_at_once(const Stream& stream) const {
  if (!session_.memory()->is_one_process()) return true;
  const int n = session_.world_size();
  const auto stream_of = [&](int rank) {
    return rank == session_.rank() ? reinterpret_cast<std::uintptr_t>(stream.handle())
                                   : session_.group().buffer_of(rank);
  };
  for (int a = 0; a < n; ++a)
    for (int b = 0; b < a; ++b)
      if (links_.share_gpu(a, b) && stream_of(a) == stream_of(b)) return false;
  return true;
}

bool KernelAllReduce::try_run(Operation& operation, std::byte* data) {
  const DeviceAlgorithm algorithm = algorithm_for(operation.call);
  if (algorithm == DeviceAlgorithm::plan) return false;
  const Stream current = current_stream(device_);
  bool is_launched = false;
  try {
    session_.exchange(operation, reinterpret_cast<std::uintptr_t>(current.handle()));
    is_possible_ = all_can_run_at_once(current);
    if (!is_possible_) return false;
    session_.count(operation);
    launch(algorithm, operation, data, current);
    is_launched = true;
    // A rank that goes on before all have launched might keep another one from it: by a call that
    // waits for this GPU, or by what it queues. Streams share hardware queues, and a kernel does
    // not begin while what is ahead of it in its queue waits for a kernel that waits for this one.
    session_.exchange(operation, 0);
    Event(stream_, /*timing=*/false, operation.where).block(current, operation.where);
    session_.count(operation);
  } catch (const std::exception& error) {
    session_.group().fail(error.what());
    abort();  // those that have launched wait for those that have not
    // The caller may give `data` back, to later work on its stream.
    if (is_launched)
      Event(stream_, /*timing=*/false, operation.where).block(current, operation.where);
    throw;
  }
  return true;
}

void KernelAllReduce::launch(DeviceAlgorithm algorithm, const Operation& operation, std::byte* data,
                             const Stream& current) {
  const CollectiveCall& call = operation.call;
  const int rank = operation.rank;
  const Where where = operation.where;
  cuda::KernelCall kernel{};
  kernel.rank = rank;
  kernel.world_size = session_.world_size();
  kernel.number = ++number_;
  for (int r = 0; r < kernel.world_size; ++r) {
    kernel.mailboxes[r] = links_.kernel_peer(r).mailbox;
    kernel.names[r] = session_.group().name(r);
  }
  kernel.capacity = session_.options().kernel_bytes;
  kernel.abort = links_.kernel_peer(rank).abort_word;
  kernel.deadline_ns = static_cast<std::uint64_t>(session_.options().deadline.count());
  kernel.note = note_;
  kernel.late = {.operation = name(call.op),
                 .rank = kernel.names[rank],
                 .peer = kernel.names[rank],
                 .sequence = operation.sequence,
                 .seconds = session_.group().deadline_s(),
                 .aborted = false,
                 .where = where};
  const std::size_t packs = static_cast<std::size_t>(call.count) * size_bytes(call.dtype) / 16;
  const std::size_t wanted = packs / kPacksPerBlock + 1;
  const int blocks = static_cast<int>(std::min<std::size_t>(wanted, num_blocks_));
  Event(current, /*timing=*/false, where).block(stream_, where);
  cuda::launch_all_reduce(stream_, algorithm, kernel, call.dtype, call.reduce, data, call.count,
                          blocks, is_alone_, where);
  ++num_launches;
}

std::uint64_t num_kernel_all_reduces() { return num_launches; }

void KernelAllReduce::abort() noexcept {
  for (int r = 0; r < session_.world_size(); ++r)
    if (std::uint64_t* word = links_.kernel_peer(r).abort_word)
      std::atomic_ref(*word).store(1, std::memory_order_release);
}

bool KernelAllReduce::gave_up() {
  std::uint64_t* const word = links_.kernel_peer(session_.rank()).abort_word;
  return word != nullptr && std::atomic_ref(*word).load(std::memory_order_acquire) != 0;
}

}  // namespace ringrad
