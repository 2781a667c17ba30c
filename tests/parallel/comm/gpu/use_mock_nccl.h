// Uses the mock of NCCL in this process, on its simulated GPUs.

#pragma once

#include <chrono>
#include <functional>

#include "ringrad/parallel/comm/gpu/nccl_communicator.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/tests/parallel/comm/gpu/mock_nccl.h"

namespace ringrad::testing {

/// The file to give to NcclOptions::library.
inline constexpr const char* kMockNcclFile = "tests/parallel/comm/gpu/libmock_nccl.so";

/// Simulates these faults from now on, and no earlier ones.
void use_mock_nccl(const MockNcclFaults& faults = {});

MockNcclState mock_nccl_state();

/// Runs body(communicator) on n ranks, each a thread with a simulated GPU of its own, which is its
/// default device. The communicators are of NCCL over a group of threads; both have the same
/// deadline.
void run_nccl_ranks(int n, const std::function<void(Communicator&)>& body,
                    std::chrono::nanoseconds deadline = std::chrono::seconds(60));

}  // namespace ringrad::testing
