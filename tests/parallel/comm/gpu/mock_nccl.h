// The interface between tests and the mock of NCCL (mock_nccl.cc).

#pragma once

#include <cstddef>
#include <cstdint>

namespace ringrad::testing {

/// The CUDA runtime of the process that opened the library. The library cannot find it by itself.
struct MockNcclRuntime {
  int (*current_device)();
  void* (*allocate_pinned)(std::size_t bytes);
  /// These functions queue work on a stream of `device`.
  void (*copy)(int device, void* stream, void* to, const void* from, std::size_t bytes);
  void (*call)(int device, void* stream, void (*function)(void*), void* argument);
  void (*wait_for_word)(int device, void* stream, const std::uint64_t* word);
};

/// Faults to simulate; calls are counted from 1 on each communicator.
struct MockNcclFaults {
  int version = 22809;
  int remote_error_at_call = 0;  ///< all ranks get ncclRemoteError while it runs
  int refused_call = 0;          ///< rank 0 gets ncclInvalidArgument from it
  int stuck_call = 0;            ///< never ends and never reports an error
  int looks_per_call = 1;        ///< number of state queries after which a call ends
  bool init_never_ends = false;
  bool abort_waits = false;  ///< until the next mock_nccl_configure, at most 5 s
};

struct MockNcclState {
  int num_live;  ///< communicators that were neither destroyed nor aborted
  int num_aborted;
  int num_broken_rules;
  char rule[256];  ///< the first rule that was broken
};

// Exported by the library under these names.
using MockNcclConfigure = void (*)(const MockNcclRuntime&, const MockNcclFaults&);
using MockNcclInspect = MockNcclState (*)();
inline constexpr const char* kMockNcclConfigure = "mock_nccl_configure";
inline constexpr const char* kMockNcclInspect = "mock_nccl_inspect";

}  // namespace ringrad::testing
