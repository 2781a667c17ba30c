#include "ringrad/core/capture.h"

#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/core/gpu/cuda_check.h"
#include "ringrad/core/transfer.h"

namespace ringrad {
namespace {

thread_local Capture* running = nullptr;

// Captures a stream until end(), or until destruction if body() throws.
class RunningCapture {
 public:
  RunningCapture(const Stream& stream, Where where) : stream_(stream) {
    RINGRAD_CUDA_CHECK(cudaStreamBeginCapture(stream.handle(), cudaStreamCaptureModeRelaxed),
                       where);
  }
  ~RunningCapture() {
    cudaGraph_t graph = nullptr;
    if (!ended_ && cudaStreamEndCapture(stream_.handle(), &graph) == cudaSuccess)
      cudaGraphDestroy(graph);
    if (!ended_) cudaGetLastError();
  }

  cudaGraph_t end(Where where) {
    ended_ = true;
    cudaGraph_t graph = nullptr;
    RINGRAD_CUDA_CHECK(cudaStreamEndCapture(stream_.handle(), &graph), where);
    return graph;
  }

 private:
  const Stream& stream_;
  bool ended_ = false;
};

struct RunningGuard {
  explicit RunningGuard(Capture* capture) { set(capture); }
  ~RunningGuard() { set(nullptr); }
  static void set(Capture* capture) {
    running = capture;
    detail::is_capturing = capture != nullptr;
  }
};

}  // namespace

Capture::Capture(Device device, Where where) : device_(device) {
  RINGRAD_CHECK(device.is_cuda(), DeviceError, where, "capture: the device must be a GPU; got ",
                device);
  pool_ = std::make_unique<PrivatePool>(device);
  values_pool_ = std::make_unique<PrivatePool>(device);
}

Capture::~Capture() {
  if (executable_) {
    const DeviceGuard guard(device_);
    cudaError_t status = cudaDeviceSynchronize();
    if (status == cudaSuccess) status = cudaGraphExecDestroy(executable_);
    if (status != cudaSuccess) report_cuda_error(status, "cudaGraphExecDestroy");
  }
  for (void* value : values_) cuda_deallocate(value, device_);
}

void Capture::record(const std::function<void()>& body, Where where) {
  RINGRAD_CHECK(!executable_, ValueError, where, "capture: it can be recorded once; got a second");
  RINGRAD_CHECK(!running, ValueError, where, "capture: there must be one at a time; got another");
  prepare_.clear();  // of a failed attempt
  const DeviceGuard guard(device_, where);
  const Stream stream(device_, where);
  // Earlier work must be done, or the first replay might not see its results.
  ringrad::synchronize(device_, where);
  cudaGraph_t graph = nullptr;
  {
    RunningCapture capture(stream, where);
    const StreamGuard on_stream(stream);
    const PrivatePool::Scope in_pool(*pool_);
    const RunningGuard is_running(this);
    body();
    graph = capture.end(where);
  }
  cudaError_t status = cudaGraphGetNodes(graph, nullptr, &num_nodes_);
  if (status == cudaSuccess) status = cudaGraphInstantiate(&executable_, graph, 0);
  cudaGraphDestroy(graph);
  RINGRAD_CUDA_CHECK(status, where);
}

void Capture::replay(Where where) {
  RINGRAD_CHECK(executable_, ValueError, where, "capture: it must be recorded before its replay");
  for (const auto& prepare : prepare_) prepare();
  const DeviceGuard guard(device_, where);
  RINGRAD_CUDA_CHECK(cudaGraphLaunch(executable_, current_stream(device_).handle()), where);
}

void at_each_replay(std::function<void()> prepare) {
  RINGRAD_ASSERT(running);
  running->prepare_.push_back(std::move(prepare));
}

CapturedMemory allocate_for_capture(std::size_t bytes) {
  RINGRAD_ASSERT(running);
  const PrivatePool::Scope apart(*running->values_pool_);
  running->values_.push_back(cuda_allocate(bytes, running->device_));
  return {running->values_.back(), running->device_};
}

void send_before_replay(const CapturedMemory& to, const void* from, std::size_t bytes) {
  copy_bytes(to.address, to.device, from, Device(), bytes, Where::current());
}

}  // namespace ringrad
