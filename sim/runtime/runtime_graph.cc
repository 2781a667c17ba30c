// Stream capture and graphs.

#include "ringrad/sim/machine.h"
#include "ringrad/sim/runtime/runtime_api.h"
#include "ringrad/sim/sanitizers.h"

using namespace ringrad::sim;

namespace {

cudaError_t fail_capture(cudaError_t error, const char* call, const std::string& text) {
  return fail(error, std::string(call) + ": " + text);
}

// The graph behind the handle, or null. REQUIRES: machine.mutex is held
template <class Handle>
Handle* find(const std::unordered_map<const Handle*, std::unique_ptr<Handle>>& all,
             const Handle* handle) {
  const auto found = all.find(handle);
  return found == all.end() ? nullptr : found->second.get();
}

cudaError_t fail_no_graph(const char* call) {
  return fail_capture(cudaErrorInvalidValue, call, "the graph must be one that exists");
}

}  // namespace

// --- Capture -------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  constexpr const char* kCall = "cudaStreamBeginCapture";
  if (!stream)
    return fail_capture(cudaErrorStreamCaptureUnsupported, kCall,
                        "the default stream cannot be captured");
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.resolve(kCall, stream)) return error;
  const QuietLock lock(machine.mutex);
  if (stream->capture)
    return fail_capture(cudaErrorIllegalState, kCall, "the stream is being captured already");
  stream->capture = std::make_shared<Capture>(*stream, mode);
  stream->last_captured = nullptr;
  machine.captures.push_back(stream->capture);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (!status) return fail_no_place("cudaStreamIsCapturing");
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.resolve("cudaStreamIsCapturing", stream)) return error;
  const QuietLock lock(machine.mutex);
  if (!stream->capture)
    *status = cudaStreamCaptureStatusNone;
  else
    *status = stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

// Ends the capture even when it returns an error, such as a device's fault.
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  constexpr const char* kCall = "cudaStreamEndCapture";
  if (!graph) return fail_no_place(kCall);
  *graph = nullptr;
  Machine& machine = Machine::get();
  const cudaError_t error = machine.resolve(kCall, stream);
  if (!stream) return error;
  const QuietLock lock(machine.mutex);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture)
    return fail_capture(cudaErrorIllegalState, kCall, "the stream must be one that is captured");
  if (!capture->began_on(*stream))
    return fail_capture(cudaErrorStreamCaptureUnmatched, kCall,
                        "a capture must end on the stream where it began");
  const std::shared_ptr<Op> last = stream->last_captured;
  machine.end_capture(capture);
  if (error) return error;
  if (capture->invalid)
    return fail_capture(cudaErrorStreamCaptureInvalidated, kCall,
                        "a call that cannot be captured was made meanwhile");
  if (!capture->is_joined_by(last))
    return fail_capture(cudaErrorStreamCaptureUnjoined, kCall,
                        "the stream must wait for all other streams that were captured");
  auto made = std::make_unique<Graph>(capture->graph());
  *graph = made.get();
  machine.graphs.emplace(made.get(), std::move(made));
  return cudaSuccess;
}

// --- Graphs --------------------------------------------------------------------------------------

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  constexpr const char* kCall = "cudaGraphGetNodes";
  if (nodes) return fail_capture(cudaErrorNotSupported, kCall, "nodes can only be counted");
  if (!count) return fail_no_place(kCall);
  Machine& machine = Machine::get();
  const QuietLock lock(machine.mutex);
  if (!find(machine.graphs, graph)) return fail_no_graph(kCall);
  *count = graph->size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  constexpr const char* kCall = "cudaGraphInstantiate";
  if (!executable) return fail_no_place(kCall);
  Machine& machine = Machine::get();
  const QuietLock lock(machine.mutex);
  if (!find(machine.graphs, graph)) return fail_no_graph(kCall);
  auto made = std::make_unique<GraphExec>(GraphExec{*graph, nullptr});
  *executable = made.get();
  machine.graph_execs.emplace(made.get(), std::move(made));
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  constexpr const char* kCall = "cudaGraphLaunch";
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.resolve(kCall, stream)) return error;
  return machine.submit_graph(executable, *stream);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  Machine& machine = Machine::get();
  const QuietLock lock(machine.mutex);
  return machine.graphs.erase(graph) ? cudaSuccess : fail_no_graph("cudaGraphDestroy");
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  Machine& machine = Machine::get();
  const QuietLock lock(machine.mutex);
  return machine.graph_execs.erase(executable) ? cudaSuccess
                                               : fail_no_graph("cudaGraphExecDestroy");
}
