// A CUDA runtime without devices, for a CPU-only build: the functions that the library calls.

#include <cuda_runtime.h>

namespace {
constexpr cudaError_t kError = cudaErrorNoDevice;
}  // namespace

const char* cudaGetErrorName(cudaError_t) { return "cudaErrorNoDevice"; }
const char* cudaGetErrorString(cudaError_t) { return "this is a CPU-only build of the library"; }
cudaError_t cudaGetLastError() { return kError; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int) { return kError; }
cudaError_t cudaGetDevice(int*) { return kError; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int) { return kError; }
cudaError_t cudaDeviceSynchronize() { return kError; }
cudaError_t cudaMalloc(void**, std::size_t) { return kError; }
cudaError_t cudaFree(void*) { return kError; }
cudaError_t cudaMallocAsync(void**, std::size_t, cudaStream_t) { return kError; }
cudaError_t cudaFreeAsync(void*, cudaStream_t) { return kError; }
cudaError_t cudaHostAlloc(void**, std::size_t, unsigned) { return kError; }
cudaError_t cudaFreeHost(void*) { return kError; }
cudaError_t cudaMemcpyAsync(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t) {
  return kError;
}
cudaError_t cudaMemcpyPeerAsync(void*, int, const void*, int, std::size_t, cudaStream_t) {
  return kError;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned) { return kError; }
cudaError_t cudaStreamDestroy(cudaStream_t) { return kError; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return kError; }
cudaError_t cudaStreamQuery(cudaStream_t) { return kError; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return kError; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned) { return kError; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return kError; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return kError; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return kError; }
cudaError_t cudaEventQuery(cudaEvent_t) { return kError; }
cudaError_t cudaEventElapsedTime(float*, cudaEvent_t, cudaEvent_t) { return kError; }
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) { return kError; }
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) { return kError; }
cudaError_t cudaGraphGetNodes(cudaGraph_t, cudaGraphNode_t*, std::size_t*) { return kError; }
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long) {
  return kError;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return kError; }
cudaError_t cudaGraphDestroy(cudaGraph_t) { return kError; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return kError; }
