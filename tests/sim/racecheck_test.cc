// Planted faults, each beside its mended twin. With --config=racecheck the first must be found,
// with the lines of all accesses, and the second must not; in other builds there is nothing to
// find.
//
// A comment <name> at the end of a line names the line for the tests.

#include <fstream>
#include <functional>
#include <string>

#include "ringrad/sim/racecheck/access_check.h"
#include "ringrad/tests/sim/simulated_test.h"

namespace ringrad {
namespace {

using sim::last_report;
using testing::AllOf;
using testing::HasSubstr;

__global__ void reverse(int* x, bool mended) {
  RINGRAD_SHARED(int, tile, [64]);
  tile[threadIdx.x] = x[threadIdx.x];  // <reverse writes>
  if (mended) __syncthreads();
  x[threadIdx.x] = tile[63 - threadIdx.x];  // <reverse reads>
}

__global__ void shift(int* x, bool mended) {
  const int next = x[threadIdx.x + 1];  // <shift reads>
  if (mended) __syncthreads();
  x[threadIdx.x] = next;  // <shift writes>
}

__global__ void sum_pairs(int* x, bool mended) {
  RINGRAD_SHARED(int, values, [32]);
  values[threadIdx.x] = 1;  // <lane writes>
  if (mended) __syncwarp();
  x[threadIdx.x] = values[threadIdx.x] + values[threadIdx.x ^ 1];  // <lane reads>
}

// The second half of a warp reads what the first half has written. Each half waits for itself
// alone, or the whole warp waits together.
__global__ void exchange_halves(int* x, bool mended) {
  if (threadIdx.x < 16) x[threadIdx.x] = 1;  // <half writes>
  __syncwarp(mended ? ~0u : threadIdx.x < 16 ? 0xffffu : 0xffff0000u);
  if (threadIdx.x >= 16) x[threadIdx.x] = x[threadIdx.x - 16];  // <half reads>
}

// A vote brings the lanes together, but does not order their accesses.
__global__ void vote_between(int* x, bool mended) {
  RINGRAD_SHARED(int, values, [32]);
  values[threadIdx.x] = 1;  // <voter writes>
  const unsigned all = __ballot_sync(~0u, 1);
  if (mended) __syncwarp();
  x[threadIdx.x] = static_cast<int>(all) + values[threadIdx.x ^ 1];  // <voter reads>
}

// Lane 0 meets lane 1, and then lane 1 meets lane 2: so lane 2 may read what lane 0 wrote.
__global__ void pass_on(int* x, bool mended) {
  if (threadIdx.x == 0) x[0] = 1;  // <first lane writes>
  if (threadIdx.x <= 1) __syncwarp(0x3);
  if (mended && (threadIdx.x == 1 || threadIdx.x == 2)) __syncwarp(0x6);
  if (threadIdx.x == 2) x[2] = x[0];  // <last lane reads>
}

__global__ void count(int* counter, bool mended) {
  if (mended)
    atomicAdd(counter, 1);
  else
    ++*counter;  // <counts>
}

// Thread 0's own atomic must not hide its plain write.
__global__ void count_from_zero(int* result, bool mended) {
  if (threadIdx.x == 0) *result = 0;  // <clears>
  if (mended) __syncthreads();
  atomicAdd(result, 1);
}

// Lane 0 writes what both warps have read, after its own warp has met.
__global__ void write_after_two_warps(int* x, bool mended) {
  const int mine = x[0];  // <warps read>
  mended ? __syncthreads() : __syncwarp();
  if (threadIdx.x == 0) x[0] = mine + 1;  // <warp writes>
}

// Neighbouring bytes of a word are no race.
__global__ void fill_bytes(int* x, bool mended) {
  auto* bytes = reinterpret_cast<char*>(x);
  bytes[threadIdx.x] = 1;                         // <fills>
  if (!mended && threadIdx.x == 6) bytes[5] = 1;  // <fills again>
}

__global__ void sum_tile(int* x, bool mended) {
  RINGRAD_SHARED(int, tile, [32]);
  if (mended || threadIdx.x != 5) tile[threadIdx.x] = 1;
  __syncthreads();
  x[threadIdx.x] = tile[31 - threadIdx.x];  // <reads tile>
}

__global__ void add_neighbour(int* x, bool mended) {
  RINGRAD_SHARED(int, values, [32]);
  values[threadIdx.x] = 1;
  __syncthreads();
  x[threadIdx.x] = values[threadIdx.x + (threadIdx.x < 31 || !mended)];  // <reads neighbour>
}

__global__ void increment(const int* a, int* b, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) b[i] = a[i] + 1;  // <increments>
}

__global__ void clear_bytes(int* x, long begin, long end) {
  for (long i = begin; i < end; ++i) reinterpret_cast<char*>(x)[i] = 0;  // <clears bytes>
}

class RacecheckTest : public sim::SimulatedTest {
 protected:
  void SetUp() override {
    if (!sim::kChecksAccesses) GTEST_SKIP() << "needs --config=racecheck";
  }

  // "at racecheck_test.cc:LINE", of the line that has this name.
  static std::string at(const std::string& name) {
    std::ifstream source("tests/sim/racecheck_test.cc");
    int number = 1;
    for (std::string line; std::getline(source, line); ++number)
      if (line.ends_with("// <" + name + ">"))
        return "at racecheck_test.cc:" + std::to_string(number);
    ADD_FAILURE() << "no line is named " << name;
    return {};
  }

  // Runs the kernel on 128 zeros.
  template <class Report>
  static void expect_found_unless_mended(void (*kernel)(int*, bool), dim3 grid, dim3 block,
                                         const Report& report) {
    for (const bool mended : {true, false}) {
      ASSERT_EQ(launch({"planted", grid, block}, kernel, allocate_zeros(128), mended), cudaSuccess);
      EXPECT_EQ(cudaDeviceSynchronize(), mended ? cudaSuccess : cudaErrorLaunchFailure)
          << last_report();
    }
    EXPECT_THAT(last_report(), report);
  }
};

TEST_F(RacecheckTest, AMissingBlockBarrierIsFound) {
  expect_found_unless_mended(
      reverse, 1, 64,
      AllOf(HasSubstr("kernel 'planted' on device 0, block (0, 0, 0), thread (32, 0, 0) wrote 4 " +
                      ("bytes " + at("reverse writes"))),
            HasSubstr(", which block (0, 0, 0), thread (31, 0, 0) read " + at("reverse reads")),
            HasSubstr("in shared memory")));
}

TEST_F(RacecheckTest, AMissingBarrierBetweenAReadAndAWriteIsFound) {
  expect_found_unless_mended(
      shift, 1, 64,
      AllOf(HasSubstr("thread (1, 0, 0) wrote 4 bytes " + at("shift writes")),
            HasSubstr("thread (0, 0, 0) read " + at("shift reads")),
            HasSubstr("in an allocation of 512 bytes on device 0")));
}

TEST_F(RacecheckTest, AMissingWarpBarrierIsFound) {
  expect_found_unless_mended(sum_pairs, 1, 32,
                             AllOf(HasSubstr(at("lane writes")), HasSubstr(at("lane reads"))));
}

TEST_F(RacecheckTest, AVoteInPlaceOfAWarpBarrierIsFound) {
  expect_found_unless_mended(vote_between, 1, 32,
                             AllOf(HasSubstr(at("voter writes")), HasSubstr(at("voter reads"))));
}

TEST_F(RacecheckTest, AWarpBarrierOfTheWrongLanesIsFound) {
  expect_found_unless_mended(exchange_halves, 1, 32,
                             AllOf(HasSubstr(at("half writes")), HasSubstr(at("half reads"))));
}

TEST_F(RacecheckTest, AnOrderBetweenLanesThatNeverMetIsKnown) {
  expect_found_unless_mended(
      pass_on, 1, 32, AllOf(HasSubstr(at("first lane writes")), HasSubstr(at("last lane reads"))));
}

TEST_F(RacecheckTest, BlocksThatWriteTheSameMemoryAreFound) {
  expect_found_unless_mended(
      count, 4, 1,
      AllOf(HasSubstr("block (1, 0, 0), thread (0, 0, 0)"),
            HasSubstr("block (0, 0, 0), thread (0, 0, 0) wrote " + at("counts"))));
}

TEST_F(RacecheckTest, APlainWriteBesideAtomicsIsFound) {
  expect_found_unless_mended(
      count_from_zero, 1, 64,
      HasSubstr("which block (0, 0, 0), thread (0, 0, 0) wrote " + at("clears")));
}

TEST_F(RacecheckTest, AWriteAfterReadsOfSeveralWarpsIsFound) {
  expect_found_unless_mended(write_after_two_warps, 1, 64,
                             AllOf(HasSubstr(at("warp writes")), HasSubstr(at("warps read"))));
}

TEST_F(RacecheckTest, RacesAreExactToTheByte) {
  expect_found_unless_mended(fill_bytes, 1, 32,
                             AllOf(HasSubstr("wrote 1 bytes " + at("fills again")),
                                   HasSubstr("thread (5, 0, 0) wrote " + at("fills"))));
}

TEST_F(RacecheckTest, AReadOfSharedMemoryThatNobodyWroteIsFound) {
  expect_found_unless_mended(sum_tile, 1, 32,
                             AllOf(HasSubstr("thread (26, 0, 0) read 4 bytes " + at("reads tile")),
                                   HasSubstr("which had never been written: in shared memory")));
}

TEST_F(RacecheckTest, AReadPastTheEndOfASharedArrayIsFound) {
  for (const bool mended : {true, false})
    ASSERT_EQ(launch({"planted", 1, 32}, add_neighbour, allocate(32), mended), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(),
              AllOf(HasSubstr("thread (31, 0, 0) read 4 bytes " + at("reads neighbour")),
                    HasSubstr("outside of what is allocated: in shared memory")));
}

TEST_F(RacecheckTest, OneElementPastTheEndIsFoundWhenRead) {
  int *a = allocate_zeros(100), *b = allocate(101);
  ASSERT_EQ(launch({"planted", 1, 32}, increment, a, b, 100), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
  ASSERT_EQ(launch({"planted", 1, 32}, increment, a, b, 101), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(), AllOf(HasSubstr("thread (4, 0, 0) read 4 bytes " + at("increments")),
                                   HasSubstr("0 bytes after the end of an allocation of 400")));
}

TEST_F(RacecheckTest, OneElementPastTheEndIsFoundWhenWritten) {
  int *a = allocate_zeros(101), *b = allocate(100);
  ASSERT_EQ(launch({"planted", 1, 32}, increment, a, b, 101), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_THAT(last_report(), AllOf(HasSubstr("thread (4, 0, 0) wrote 4 bytes " + at("increments")),
                                   HasSubstr("0 bytes after the end of an allocation of 400")));
}

TEST_F(RacecheckTest, BoundsAreExactToTheByte) {
  struct Case {
    long begin, end;
    const char* report;
  };
  for (const Case& outside :
       {Case{402, 403, ", 0 bytes after the end of an allocation of 402 bytes"},
        Case{-1, 402, ", 1 bytes before an allocation of 402 bytes"}}) {
    sim::reset();
    int* p = nullptr;
    ASSERT_EQ(cudaMalloc(&p, 402), cudaSuccess);
    ASSERT_EQ(launch({"planted", 1, 1}, clear_bytes, p, 0L, 402L), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
    ASSERT_EQ(launch({"planted", 1, 1}, clear_bytes, p, outside.begin, outside.end), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    EXPECT_THAT(last_report(),
                AllOf(HasSubstr("wrote 1 bytes " + at("clears bytes")), HasSubstr(outside.report)));
  }
}

// Copies and fills count as writes; a copy of unwritten memory does not.
TEST_F(RacecheckTest, AReadOfWhatNobodyWroteIsFound) {
  int *a = allocate(4), *b = allocate(4), *result = allocate(4);
  ASSERT_EQ(cudaMemset(a, 0, 3 * sizeof *a), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(b, a, 4 * sizeof *a, cudaMemcpyDeviceToDevice), cudaSuccess);
  ASSERT_EQ(launch({"planted", 1, 32}, increment, b, result, 3), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
  ASSERT_EQ(launch({"planted", 1, 32}, increment, b, result, 4), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_THAT(last_report(), AllOf(HasSubstr("thread (3, 0, 0) read 4 bytes " + at("increments")),
                                   HasSubstr("which had never been written"),
                                   HasSubstr("in an allocation of 16 bytes")));
}

}  // namespace
}  // namespace ringrad
