// Stream capture: captured work does not run, and each replay runs all of it.

#include "ringrad/tests/sim/simulated_test.h"

namespace ringrad {
namespace {

using sim::last_report;

__global__ void add(int* p, int value) { *p += value; }
__global__ void multiply(int* p, int value) { *p *= value; }
__global__ void add_from(int* p, const int* from) { *p += *from; }

class GraphTest : public sim::SimulatedTest {
 protected:
  static int read(const int* p) { return download(p, 1)[0]; }
  static LaunchConfig on(cudaStream_t stream) {
    return {.name = "kernel", .grid = 1, .block = 1, .stream = stream};
  }
  void begin() const {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  }
  cudaGraphExec_t end() const {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess) << last_report();
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return executable;
  }
  cudaError_t failed_end() const {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream_, &graph);
    EXPECT_EQ(graph, nullptr);
    return error;
  }

  cudaStream_t stream_ = make_stream();
  int* p_ = allocate_zeros(1);
};

TEST_F(GraphTest, AReplayDoesAllThatWasCapturedInOrder) {
  begin();
  EXPECT_EQ(launch(on(stream_), add, p_, 1), cudaSuccess);
  EXPECT_EQ(launch(on(stream_), multiply, p_, 3), cudaSuccess);
  const cudaGraphExec_t graph = end();
  EXPECT_EQ(read(p_), 0);
  for (int expected : {3, 12, 39}) {
    ASSERT_EQ(cudaGraphLaunch(graph, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(read(p_), expected);
  }
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

TEST_F(GraphTest, ReplaysKeepTheStreamsOrder) {
  begin();
  EXPECT_EQ(launch(on(stream_), multiply, p_, 2), cudaSuccess);
  const cudaGraphExec_t graph = end();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(launch(on(stream_), add, p_, 1), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(graph, stream_), cudaSuccess);
  }
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(read(p_), 14);
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

// A fork by one event and a join by another; the forked work may run in any order.
TEST_F(GraphTest, StreamsJoinACaptureByWaitingForItsEvents) {
  int* q = allocate_zeros(1);
  const cudaStream_t other = make_stream();
  const cudaEvent_t fork = make_event(), join = make_event();
  begin();
  EXPECT_EQ(launch(on(stream_), add, p_, 5), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(fork, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other, fork), cudaSuccess);
  EXPECT_EQ(launch(on(other), add_from, q, p_), cudaSuccess);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  ASSERT_EQ(cudaStreamIsCapturing(other, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  ASSERT_EQ(cudaEventRecord(join, other), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(stream_, join), cudaSuccess);
  EXPECT_EQ(launch(on(stream_), add_from, p_, q), cudaSuccess);
  const cudaGraphExec_t graph = end();
  ASSERT_EQ(cudaGraphLaunch(graph, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(read(q), 5);
  EXPECT_EQ(read(p_), 10);
  EXPECT_EQ(cudaStreamWaitEvent(other, fork), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventDestroy(fork), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(join), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

TEST_F(GraphTest, CopiesAndHostFunctionsAreReplayed) {
  int* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, sizeof(int)), cudaSuccess);
  begin();
  ASSERT_EQ(cudaMemcpyAsync(p_, pinned, sizeof(int), cudaMemcpyHostToDevice, stream_), cudaSuccess);
  EXPECT_EQ(launch(on(stream_), add, p_, 1), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(pinned, p_, sizeof(int), cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(
                stream_, [](void* data) { *static_cast<int*>(data) *= 10; }, pinned),
            cudaSuccess);
  const cudaGraphExec_t graph = end();
  *pinned = 4;
  for (int i = 0; i < 2; ++i) ASSERT_EQ(cudaGraphLaunch(graph, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(*pinned, 510);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

TEST_F(GraphTest, RefusesToEndBeforeAllStreamsHaveJoined) {
  const cudaStream_t other = make_stream();
  const cudaEvent_t fork = make_event();
  begin();
  ASSERT_EQ(cudaEventRecord(fork, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other, fork), cudaSuccess);
  EXPECT_EQ(launch(on(other), add, p_, 1), cudaSuccess);
  EXPECT_EQ(failed_end(), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(launch(on(other), add, p_, 1), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(other), cudaSuccess);
  EXPECT_EQ(read(p_), 1);
  EXPECT_EQ(cudaEventDestroy(fork), cudaSuccess);
}

TEST_F(GraphTest, RefusesToEndOnAnotherStream) {
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(make_stream(), &graph), cudaErrorIllegalState);
  const cudaStream_t other = make_stream();
  const cudaEvent_t fork = make_event();
  begin();
  ASSERT_EQ(cudaEventRecord(fork, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other, fork), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(other, &graph), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(cudaEventDestroy(fork), cudaSuccess);
}

TEST_F(GraphTest, ACallThatCannotBeCapturedEndsTheCapture) {
  int host = 0;
  void* memory = nullptr;
  const auto after = [&](cudaError_t error) {
    EXPECT_EQ(error, cudaErrorStreamCaptureUnsupported) << last_report();
    EXPECT_EQ(launch(on(stream_), add, p_, 1), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(failed_end(), cudaErrorStreamCaptureInvalidated);
  };
  begin();
  after(cudaStreamSynchronize(stream_));
  begin();
  after(cudaStreamQuery(stream_));
  begin();
  after(cudaDeviceSynchronize());
  begin();
  after(cudaMalloc(&memory, 4));
  begin();
  after(cudaFree(p_));
  begin();
  after(cudaMemcpyAsync(&host, p_, sizeof host, cudaMemcpyDeviceToHost, stream_));
}

TEST_F(GraphTest, RefusesToMixCapturedAndOtherWork) {
  const cudaEvent_t event = make_event();
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  begin();
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(failed_end(), cudaErrorStreamCaptureInvalidated);
  begin();
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaGraphExecDestroy(end()), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal),
            cudaErrorStreamCaptureUnsupported);
}

TEST_F(GraphTest, TheDefaultStreamMustNotWaitForACapture) {
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(launch(on(nullptr), add, p_, 1), cudaErrorStreamCaptureImplicit);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
}

TEST_F(GraphTest, TheDefaultStreamCannotJoinACapture) {
  const cudaEvent_t event = make_event();
  begin();
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(nullptr, event), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(failed_end(), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(launch(on(nullptr), add, p_, 1), cudaSuccess);
  EXPECT_EQ(read(p_), 1);
}

TEST_F(GraphTest, DestroyingItsStreamEndsACapture) {
  begin();
  ASSERT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
}

// Launches of one graph run one after another, on any streams.
TEST_F(GraphTest, LaunchesOfOneGraphAreOrdered) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    sim::reset({.seed = seed});
    stream_ = make_stream();
    p_ = allocate_zeros(1);
    begin();
    EXPECT_EQ(launch(on(stream_), multiply, p_, 3), cudaSuccess);
    EXPECT_EQ(launch(on(stream_), add, p_, 1), cudaSuccess);
    const cudaGraphExec_t graph = end();
    for (int i = 0; i < 3; ++i) ASSERT_EQ(cudaGraphLaunch(graph, make_stream()), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(read(p_), 13) << "seed " << seed;
  }
}

TEST_F(GraphTest, RefusesGraphsThatAreNoMore) {
  begin();
  EXPECT_EQ(launch(on(stream_), add, p_, 1), cudaSuccess);
  const cudaGraphExec_t graph = end();
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphLaunch(graph, stream_), cudaErrorInvalidValue);
}

TEST_F(GraphTest, ALongGraphIsDestroyedWithoutRecursion) {
  begin();
  for (int i = 0; i < 100'000; ++i) ASSERT_EQ(launch(on(stream_), add, p_, 1), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(end()), cudaSuccess);
}

TEST_F(GraphTest, CountsItsNodes) {
  begin();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(launch(on(stream_), add, p_, 1), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  std::size_t nodes = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 3u);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

}  // namespace
}  // namespace ringrad
