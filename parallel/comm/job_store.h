// The store of the job that a process's environment tells of.

#pragma once

#include <chrono>

#include "parallel/comm/rank_environment.h"
#include "parallel/comm/store.h"

namespace ringrad {

/// A connection to it. Where no launcher serves the store rank 0 does, as long as its process lives.
///
/// Throws: ValueError if the environment does not say where several ranks meet; CollectiveError if the store does
///         not answer in time, or cannot be served
Store job_store(RankEnvironment job, std::chrono::milliseconds timeout, Where where);

}  // namespace ringrad
