// Random programs over streams and events against a model of CUDA's rules.
//
// The model knows, for each piece of work, what must come before it:
//   - the work before it on its stream
//   - what was before the last record of each event that its stream has waited for
//   - for the default stream: all earlier work of its device's blocking streams, and vice versa
// Work is a kernel that takes the next number. Whatever order the seed chooses, all that must come
// before a kernel has a smaller number.

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "ringrad/tests/sim/simulated_test.h"

namespace ringrad {
namespace {

__global__ void take_number(int* next, int* mine) { *mine = atomicAdd(next, 1); }

class OrderTest : public sim::SimulatedTest {
 protected:
  struct ModelStream {
    cudaStream_t stream;
    int device;
    bool is_default, blocking;
    std::set<int> before;  // all work that must come before the next piece
  };
  struct ModelEvent {
    cudaEvent_t event;
    int device;
    bool recorded;
    std::set<int> before;
  };

  void make_streams_and_events() {
    for (int device = 0; device < 2; ++device) {
      ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
      streams_.push_back({nullptr, device, true, true, {}});
      for (const bool blocking : {true, true, false, false}) {
        cudaStream_t stream = nullptr;
        ASSERT_EQ(cudaStreamCreateWithFlags(&stream,
                                            blocking ? cudaStreamDefault : cudaStreamNonBlocking),
                  cudaSuccess);
        streams_.push_back({stream, device, false, blocking, {}});
      }
      for (int i = 0; i < 3; ++i) events_.push_back({make_event(), device, false, {}});
    }
  }

  // The work that precedes an op on this stream.
  std::set<int> predecessors(const ModelStream& on) const {
    std::set<int> all = on.before;
    for (const ModelStream& other : streams_) {
      const bool related = other.device == on.device && other.blocking && on.blocking &&
                           (other.is_default || on.is_default);
      if (related) all.insert(other.before.begin(), other.before.end());
    }
    return all;
  }

  std::vector<ModelStream> streams_;
  std::vector<ModelEvent> events_;
};

TEST_F(OrderTest, RandomProgramsKeepTheOrderThatCudaPromises) {
  constexpr int kSteps = 60;
  for (unsigned seed = 1; seed <= 30; ++seed) {
    sim::reset({.num_devices = 2, .seed = seed});
    streams_.clear();
    events_.clear();
    make_streams_and_events();
    int* numbers = nullptr;  // the next one, and one for each piece of work
    ASSERT_EQ(cudaMallocHost(&numbers, (kSteps + 1) * sizeof(int)), cudaSuccess);
    std::fill(numbers, numbers + kSteps + 1, 0);

    std::mt19937 random(seed);
    std::vector<std::set<int>> before;
    for (int step = 0; step < kSteps; ++step) {
      ModelStream& on = streams_[random() % streams_.size()];
      ModelEvent& event = events_[random() % events_.size()];
      ASSERT_EQ(cudaSetDevice(on.device), cudaSuccess);
      switch (random() % 4) {
        case 0:
          if (event.device != on.device) break;
          ASSERT_EQ(cudaEventRecord(event.event, on.stream), cudaSuccess);
          event.recorded = true;
          event.before = on.before = predecessors(on);
          break;
        case 1:
          ASSERT_EQ(cudaStreamWaitEvent(on.stream, event.event), cudaSuccess);
          if (!event.recorded) break;  // then the wait has no effect
          on.before = predecessors(on);
          on.before.insert(event.before.begin(), event.before.end());
          break;
        default:
          const int work = static_cast<int>(before.size());
          ASSERT_EQ(launch({.name = "take_number", .grid = 1, .block = 1, .stream = on.stream},
                           take_number, numbers, numbers + 1 + work),
                    cudaSuccess);
          before.push_back(predecessors(on));
          on.before = before.back();
          on.before.insert(work);
      }
    }
    for (const int device : {0, 1}) {
      ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << sim::last_report();
    }
    ASSERT_EQ(numbers[0], static_cast<int>(before.size()));
    for (std::size_t work = 0; work < before.size(); ++work)
      for (const int earlier : before[work])
        ASSERT_LT(numbers[1 + earlier], numbers[1 + work])
            << "seed " << seed << ": work " << work << " must come after work " << earlier;
    EXPECT_EQ(cudaFreeHost(numbers), cudaSuccess);
  }
}

}  // namespace
}  // namespace ringrad
