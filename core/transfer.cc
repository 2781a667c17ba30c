#include "ringrad/core/transfer.h"

#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/core/gpu/cuda_check.h"
#include "ringrad/core/gpu/device_watch.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/pinned_memory.h"

namespace ringrad {
namespace {

constexpr const char* kNoCopyInCapture =
    "a copy from the CPU, whose bytes a replay would not find again";

// The calling thread's stream, on the target GPU, for copies from another GPU or the CPU.
const Stream& stream_between(Device from, Device to, Where where) {
  thread_local std::map<std::pair<int, int>, Stream> streams;
  const std::pair key(from.is_cuda() ? from.index : -1, to.index);
  auto found = streams.find(key);
  if (found == streams.end()) found = streams.emplace(key, Stream(to, where)).first;
  return found->second;
}

// Copies after the work queued so far on the source and on `between`; later work on both GPUs comes
// after the copy.
void copy_on(const Stream& between, void* to, const void* from, Device from_device,
             std::size_t bytes, Where where) {
  refuse_while_capturing("a copy between GPUs", where);
  const Stream source = current_stream(from_device), target = current_stream(between.device());
  Event(source, /*timing=*/false, where).block(between, where);
  {
    const DeviceGuard guard(between.device(), where);
    RINGRAD_CUDA_CHECK(cudaMemcpyPeerAsync(to, between.device().index, from, from_device.index,
                                           bytes, between.handle()),
                       where);
  }
  const Event copied(between, /*timing=*/false, where);
  copied.block(source, where);
  copied.block(target, where);
}

void copy_between_gpus(void* to, Device to_device, const void* from, Device from_device,
                       std::size_t bytes, Where where) {
  const Stream& between = stream_between(from_device, to_device, where);
  Event(current_stream(to_device), /*timing=*/false, where).block(between, where);
  copy_on(between, to, from, from_device, bytes, where);
}

// The result's memory is allocated in the order of the copies, so the copy need not wait for the
// target's work.
Tensor to_other_gpu(const Tensor& x, const Options& there, Where where) {
  const Stream& between = stream_between(x.device(), there.device, where);
  const Tensor result = [&] {
    const StreamGuard guard(between);
    return empty(x.shape(), there, where);
  }();
  if (x.numel() == 0) return result;
  copy_on(between, result.raw_data(), x.raw_data(), x.device(), result.storage()->bytes(), where);
  record_stream(result.raw_data(), current_stream(there.device), where);
  return result;
}

// Waits for the stream while watching its work. A copy into ordinary memory would wait inside the
// runtime, where nothing could notice that the process it waits for has died.
void wait_watching(const Stream& stream, Where where) {
  const DeviceGuard guard(stream.device(), where);
  await_watched_work(stream.device(),
                     [&] { return cudaStreamQuery(stream.handle()) != cudaErrorNotReady; });
}

// The host may be this many copies from pinned memory ahead of the GPU that uses them: their
// results occupy its memory.
constexpr std::size_t kCopiesAhead = 16;

// Waits for the work that the GPU had to do kCopiesAhead calls ago.
void limit_copies_ahead(Device gpu, Where where) {
  thread_local std::map<int, std::deque<Event>> before;
  std::deque<Event>& events = before[gpu.index];
  events.emplace_back(current_stream(gpu), /*timing=*/false, where);
  if (events.size() <= kCopiesAhead) return;
  const Event oldest = events.front();
  events.pop_front();
  oldest.synchronize(where);
}

// In memory of the copy's stream, as above. The host waits for the copy, after which its memory may
// be freed or overwritten, but not for the GPU's other work.
Tensor to_gpu_from_pinned(const Tensor& x, const Options& there, Where where) {
  refuse_while_capturing(kNoCopyInCapture, where);
  limit_copies_ahead(there.device, where);
  const Stream& between = stream_between(Device(), there.device, where);
  const Tensor result = [&] {
    const StreamGuard guard(between);
    const Tensor copy = empty(x.shape(), there, where);
    copy_bytes_async(copy.raw_data(), there.device, x.raw_data(), Device(), copy.storage()->bytes(),
                     where);
    return copy;
  }();
  record_stream(result.raw_data(), current_stream(there.device), where);
  between.synchronize(where);
  return result;
}

}  // namespace

void copy_bytes_async(void* to, Device to_device, const void* from, Device from_device,
                      std::size_t bytes, Where where) {
  if (bytes == 0) return;
  if (to_device.is_cpu() && from_device.is_cpu()) {
    std::memcpy(to, from, bytes);
  } else if (to_device.is_cuda() && from_device.is_cuda() && to_device != from_device) {
    copy_between_gpus(to, to_device, from, from_device, bytes, where);
  } else {
    const Device gpu = to_device.is_cuda() ? to_device : from_device;
    const DeviceGuard guard(gpu, where);
    RINGRAD_CUDA_CHECK(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, current_stream(gpu).handle()), where);
  }
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes,
                Where where) {
  const bool waits = to_device.is_cpu() && from_device.is_cuda();
  if (waits) {
    refuse_while_capturing("a copy to the CPU (item(), to_vector(), printing ...)", where);
    wait_watching(current_stream(from_device), where);
  }
  const bool from_host = to_device.is_cuda() && from_device.is_cpu();
  if (from_host) refuse_while_capturing(kNoCopyInCapture, where);
  copy_bytes_async(to, to_device, from, from_device, bytes, where);
  if (waits) current_stream(from_device).synchronize(where);
  // The runtime has read other memory before it returns.
  if (from_host && is_pinned(from)) current_stream(to_device).synchronize(where);
}

std::int64_t span_in_memory(const Tensor& x) {
  if (x.numel() == 0) return 0;
  std::int64_t span = 1;
  for (int i = 0; i < x.dims(); ++i) span += (x.shape()[i] - 1) * x.strides()[i];
  return span;
}

Tensor to_host(const Tensor& x, Where where) {
  if (x.device(where).is_cpu()) return x;
  const auto span = static_cast<std::size_t>(span_in_memory(x));
  const std::size_t bytes = span * size_bytes(x.dtype());
  auto storage = make_ref<Storage>(bytes, Device(), where);
  copy_bytes(storage->data(), Device(), x.raw_data(), x.device(), bytes, where);
  return Tensor(
      make_ref<TensorImpl>(std::move(storage), 0, x.shape(), x.strides(), x.dtype(), where));
}

Tensor to_device(const Tensor& x, Device device, Where where) {
  if (x.device(where) == device) return x;
  const Layout layout = x.is_contiguous() ? Layout::contiguous : Layout::channels_last;
  const Options there{.dtype = x.dtype(), .device = device, .layout = layout};
  if (device.is_cuda() && x.device().is_cuda()) return to_other_gpu(x, there, where);
  if (device.is_cuda() && x.numel() > 0 && is_pinned(x.raw_data()))
    return to_gpu_from_pinned(x, there, where);
  const Tensor result = empty(x.shape(), there, where);
  copy_bytes(result.raw_data(), device, x.raw_data(), x.device(), result.storage()->bytes(), where);
  return result;
}

}  // namespace ringrad
