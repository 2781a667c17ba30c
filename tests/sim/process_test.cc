// Memory and events of one process, opened by another.

#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>
#include <vector>

#include "ringrad/sim/shared_event.h"
#include "ringrad/tests/asleep.h"
#include "ringrad/tests/sim/simulated_test.h"

namespace ringrad {
namespace {

using sim::last_report;

__global__ void fill(int* p, int n, int value) {
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x))
    p[i] = value;
}

class ProcessTest : public sim::SimulatedTest {
 protected:
  static bool ended_well(pid_t child) {
    int status = -1;
    return waitpid(child, &status, 0) == child && status == 0;
  }

  static cudaEvent_t make_shared_event() {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming),
              cudaSuccess)
        << last_report();
    return event;
  }
};

// The child opens what the parent made, finds its numbers and writes others.
TEST_F(ProcessTest, AnotherProcessCanOpenMemory) {
  int* p = upload(std::vector<int>(1000, 7));
  cudaIpcMemHandle_t handle{};
  ASSERT_EQ(cudaIpcGetMemHandle(&handle, p), cudaSuccess) << last_report();
  const pid_t child = fork();
  if (child == 0) {
    sim::reset();
    int* opened = nullptr;
    bool good = cudaIpcOpenMemHandle(reinterpret_cast<void**>(&opened), handle,
                                     cudaIpcMemLazyEnablePeerAccess) == cudaSuccess;
    int number = 0;
    good = good && cudaMemcpy(&number, opened + 999, 4, cudaMemcpyDeviceToHost) == cudaSuccess;
    good = good && number == 7;
    good = good && launch({"fill", 1, 32}, fill, opened, 1000, 9) == cudaSuccess;
    good = good && cudaIpcCloseMemHandle(opened) == cudaSuccess;
    good = good && launch({"fill", 1, 32}, fill, opened, 1000, 1) == cudaSuccess;
    // Closed memory is out of reach, except under the sanitizers, which find such accesses
    // themselves.
    good = good && (sim::kTsan || sim::kAsan || cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    _exit(good ? 0 : 1);
  }
  EXPECT_TRUE(ended_well(child));
  EXPECT_EQ(download(p, 1000), std::vector<int>(1000, 9));
  void* own = nullptr;
  EXPECT_EQ(cudaIpcOpenMemHandle(&own, handle, 0), cudaErrorInvalidValue);
  int local = 0;
  EXPECT_EQ(cudaIpcGetMemHandle(&handle, &local), cudaErrorInvalidValue);
  EXPECT_EQ(cudaIpcCloseMemHandle(p), cudaErrorInvalidValue);
}

// A pipe that tells another process that something has been queued.
class Signal {
 public:
  Signal() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~Signal() {
    for (const int end : ends_) close(end);
  }
  void give() const { EXPECT_EQ(write(ends_[1], "", 1), 1); }
  bool wait() const {
    char byte;
    return read(ends_[0], &byte, 1) == 1;
  }
  bool is_taken() const {
    int num_bytes = 0;
    EXPECT_EQ(ioctl(ends_[0], FIONREAD, &num_bytes), 0);
    return num_bytes == 0;
  }

 private:
  std::array<int, 2> ends_{};
};

TEST_F(ProcessTest, AnEventOrdersTheWorkOfTwo) {
  int* p = allocate(1000);
  cudaIpcMemHandle_t memory{};
  ASSERT_EQ(cudaIpcGetMemHandle(&memory, p), cudaSuccess);
  const cudaEvent_t ping = make_shared_event(), pong = make_shared_event();
  cudaIpcEventHandle_t ping_handle{}, pong_handle{};
  ASSERT_EQ(cudaIpcGetEventHandle(&ping_handle, ping), cudaSuccess) << last_report();
  ASSERT_EQ(cudaIpcGetEventHandle(&pong_handle, pong), cudaSuccess) << last_report();
  const Signal recorded, looked, answered;
  const pid_t child = fork();
  if (child == 0) {
    sim::reset();
    int* opened = nullptr;
    cudaEvent_t first = nullptr, second = nullptr;
    bool good = cudaIpcOpenMemHandle(reinterpret_cast<void**>(&opened), memory, 0) == cudaSuccess &&
                cudaIpcOpenEventHandle(&first, ping_handle) == cudaSuccess &&
                cudaIpcOpenEventHandle(&second, pong_handle) == cudaSuccess && recorded.wait();
    good = good && cudaEventQuery(first) == cudaErrorNotReady;
    looked.give();
    good = good && cudaStreamWaitEvent(nullptr, first) == cudaSuccess;
    int number = 0;
    good = good && cudaMemcpy(&number, opened + 999, 4, cudaMemcpyDeviceToHost) == cudaSuccess;
    good = good && number == 7 && cudaEventQuery(first) == cudaSuccess;
    good = good && launch({"fill", 1, 32}, fill, opened, 1000, 9) == cudaSuccess &&
           cudaEventRecord(second) == cudaSuccess;
    answered.give();
    while (!answered.is_taken()) std::this_thread::yield();
    testing::wait_until_asleep(getppid());  // for the second event
    good = good && cudaDeviceSynchronize() == cudaSuccess;
    _exit(good ? 0 : 1);
  }
  ASSERT_EQ(launch({"fill", 1, 32}, fill, p, 1000, 7), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(ping), cudaSuccess);
  recorded.give();
  ASSERT_TRUE(looked.wait());
  testing::wait_until_asleep(
      child);  // for the first event: a device makes progress only while its process waits
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
  ASSERT_TRUE(answered.wait());
  ASSERT_EQ(cudaEventSynchronize(pong), cudaSuccess) << last_report();
  EXPECT_EQ(download(p, 1000), std::vector<int>(1000, 9));
  EXPECT_TRUE(ended_well(child));
}

// Two streams record the event, and the later record is done first.
TEST_F(ProcessTest, ALaterRecordDoesNotFinishAnEarlierOne) {
  const auto shared = sim::SharedEvent::make(0);
  const std::uint64_t first = shared->record(), second = shared->record();
  shared->finish(second);
  EXPECT_TRUE(shared->is_done(second));
  EXPECT_FALSE(shared->is_done(first));
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t number = shared->record();
    EXPECT_FALSE(shared->is_done(number));
    shared->finish(number);
    EXPECT_TRUE(shared->is_done(number));
  }
}

TEST_F(ProcessTest, ARecordThatIsRefusedIsNotWaitedFor) {
  const cudaEvent_t event = make_shared_event();
  cudaStream_t capturing = nullptr;
  ASSERT_EQ(cudaStreamCreate(&capturing), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_NE(cudaEventRecord(event, capturing), cudaSuccess);
  EXPECT_NE(cudaEventRecord(event), cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(capturing, &graph);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess) << last_report();
}

TEST_F(ProcessTest, AnEventThatWasNeverRecordedIsNotWaitedFor) {
  const cudaEvent_t event = make_shared_event();
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(nullptr, event), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(ProcessTest, AnEventOfAProcessThatDiedIsReportedAsADeadlock) {
  sim::reset({.hang_limit = std::chrono::milliseconds(200)});
  const cudaEvent_t event = make_shared_event();
  cudaIpcEventHandle_t handle{};
  ASSERT_EQ(cudaIpcGetEventHandle(&handle, event), cudaSuccess);
  const pid_t child = fork();
  if (child == 0) {
    sim::reset();
    cudaEvent_t opened = nullptr;
    const bool good = cudaIpcOpenEventHandle(&opened, handle) == cudaSuccess &&
                      cudaEventRecord(opened) == cudaSuccess;
    _exit(good ? 0 : 1);  // the recorded work has not run
  }
  ASSERT_TRUE(ended_well(child));
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorLaunchTimeout);
  EXPECT_NE(last_report().find("wait for an event of several processes"), std::string::npos)
      << last_report();
}

TEST_F(ProcessTest, EventsAreSharedOnlyAsCudaAllows) {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventInterprocess), cudaErrorInvalidValue);
  EXPECT_NE(last_report().find("must have cudaEventDisableTiming"), std::string::npos);
  cudaIpcEventHandle_t handle{};
  EXPECT_EQ(cudaIpcGetEventHandle(&handle, make_event()), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaIpcGetEventHandle(&handle, make_shared_event()), cudaSuccess);
  EXPECT_EQ(cudaIpcOpenEventHandle(&event, handle), cudaErrorInvalidValue);
  EXPECT_NE(last_report().find("must come from another process"), std::string::npos);
}

}  // namespace
}  // namespace ringrad
