// How a rank tells its launcher which rank it blames when it fails.
//
//     rank 0: "rank 2 did not call" --pipe--> agent --message--> launcher: "rank 2 failed first"
//
// The rank that notices a failure often ends before the rank that caused it, which may be stopped
// and never end. So the order of exits does not tell the launcher which rank failed. Each rank
// therefore has a pipe to its agent, given by RINGRAD_REPORT=DESCRIPTOR:INODE. The inode shows that
// the descriptor is still that pipe, since a program may have closed it and opened a file there.

#pragma once

#include <optional>
#include <string>

#include "ringrad/parallel/comm/common/descriptor.h"

namespace ringrad {

inline constexpr const char* kReportVariable = "RINGRAD_REPORT";
inline constexpr int kReportDescriptor = 198;  ///< of ranks: above those that shell scripts use
inline constexpr int kNobody = -1;             ///< in place of a rank: the culprit is unknown

/// The variable for a rank that has `pipe` at kReportDescriptor; empty if the pipe is not open.
std::string report_variable(const Descriptor& pipe);

/// Tells the launcher that the job's rank `culprit` is to blame for this process's failure. Further
/// calls do nothing, since later failures follow from the first. kNobody means that the culprit is
/// unknown. Does nothing without such a launcher. Thread-safe.
void report_culprit(int culprit) noexcept;

/// Withdraws the report, because the process continues without the culprit. Thread-safe.
void retract_report() noexcept;

/// The report that stands, a rank or kNobody, if one has arrived. Does not wait.
///
/// REQUIRES: reading from `pipe` does not block
std::optional<int> read_report(const Descriptor& pipe);

}  // namespace ringrad
