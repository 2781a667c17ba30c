// How a rank tells its launcher which rank it blames when it fails.
//
//     rank 0: "rank 2 did not call"  --pipe-->  agent  --message-->  launcher: "rank 2 failed first"
//
// The rank that notices a failure often ends before the rank that caused it, which may be stopped and never end. So
// the order of exits does not tell the launcher whose failure it was. Each rank therefore has a pipe to its agent;
// RINGRAD_REPORT=DESCRIPTOR:INODE says where. The inode shows that the descriptor still is that pipe: a program may
// have closed it and opened a file of its own there.

#pragma once

#include <optional>
#include <string>

#include "parallel/comm/descriptor.h"

namespace ringrad {

inline constexpr const char* kReportVariable = "RINGRAD_REPORT";
inline constexpr int kReportDescriptor = 198;  ///< of ranks: above those that shell scripts use
inline constexpr int kNobody = -1;             ///< instead of a rank: none is known to be to blame

/// The variable for a rank that has `pipe` at kReportDescriptor; empty if the pipe is not open.
std::string report_variable(const Descriptor& pipe);

/// Tells the launcher that the job's rank `culprit` is to blame for this process's failure. Further calls do nothing:
/// later failures follow from the first. kNobody tells it that no rank is known to be to blame. Does nothing without
/// such a launcher. Thread-safe.
void report_culprit(int culprit) noexcept;

/// Takes the report back: the process goes on without the culprit. Thread-safe.
void retract_report() noexcept;

/// The report that stands, a rank or kNobody, if one has arrived. Does not wait.
///
/// REQUIRES: reading from `pipe` does not block
std::optional<int> read_report(const Descriptor& pipe);

}  // namespace ringrad
