// Stream capture and graphs.

#include <algorithm>

#include "sim/capture.h"
#include "sim/machine.h"
#include "sim/runtime_api.h"
#include "sim/sanitizers.h"

using namespace ringrad::sim;

namespace {

cudaError_t fail_capture(cudaError_t error, const char* call, const std::string& text) {
  return fail(error, std::string(call) + ": " + text);
}

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  constexpr const char* kCall = "cudaStreamBeginCapture";
  if (!stream)
    return fail_capture(cudaErrorStreamCaptureUnsupported, kCall,
                        "the default stream cannot be captured");
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.resolve(kCall, stream, stream)) return error;
  const QuietLock lock(machine.mutex);
  if (stream->capture)
    return fail_capture(cudaErrorIllegalState, kCall, "the stream is being captured already");
  stream->capture = std::make_shared<Capture>(*stream, mode);
  stream->last_captured = nullptr;
  machine.captures.push_back(stream->capture);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const QuietLock lock(Machine::get().mutex);
  if (!stream || !stream->capture)
    *status = cudaStreamCaptureStatusNone;
  else
    *status = stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  constexpr const char* kCall = "cudaStreamEndCapture";
  *graph = nullptr;
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.resolve(kCall, stream, stream)) return error;
  if (!stream->capture)
    return fail_capture(cudaErrorIllegalState, kCall, "the stream must be one that is captured");
  const QuietLock lock(machine.mutex);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture->began_on(*stream))
    return fail_capture(cudaErrorStreamCaptureUnmatched, kCall,
                        "a capture must end on the stream where it began");
  const std::shared_ptr<Op> last = stream->last_captured;
  capture->ended = true;
  std::erase(machine.captures, capture);
  for (SimulatedDevice& device : machine.devices)
    for (const auto& other : device.streams)
      if (other->capture == capture) other->capture = nullptr, other->last_captured = nullptr;
  if (capture->invalid)
    return fail_capture(cudaErrorStreamCaptureInvalidated, kCall,
                        "a call that cannot be captured was made meanwhile");
  if (!capture->is_joined_by(last))
    return fail_capture(cudaErrorStreamCaptureUnjoined, kCall,
                        "the stream must wait for all other streams that were captured");
  *graph = new Graph(capture->ops());
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (!graph || nodes)
    return fail_capture(cudaErrorNotSupported, "cudaGraphGetNodes", "nodes can only be counted");
  *count = graph->size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  if (!graph)
    return fail_capture(cudaErrorInvalidValue, "cudaGraphInstantiate", "there must be a graph");
  *executable = new Graph(*graph);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  constexpr const char* kCall = "cudaGraphLaunch";
  if (!executable) return fail_capture(cudaErrorInvalidValue, kCall, "there must be a graph");
  Machine& machine = Machine::get();
  Stream* on = nullptr;
  if (const cudaError_t error = machine.resolve(kCall, stream, on)) return error;
  if (on->capture)
    return fail_capture(cudaErrorNotSupported, kCall, "graphs within graphs are not simulated");
  machine.submit_graph(executable->copy_ops(), *on);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
