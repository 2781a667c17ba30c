#include "ringrad/parallel/comm/common/culprit_report.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <system_error>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/no_broken_pipe.h"

namespace ringrad {
namespace {

constexpr int kRetracted = -2;
constexpr std::size_t kMostBytes = 4096;  // that are read of reports

std::atomic<bool> has_reported = false;

std::string text_of(int descriptor, const struct stat& file) {
  return concat(descriptor, ':', file.st_ino);
}

bool is_pipe_of_launcher(int descriptor) {
  const char* expected = std::getenv(kReportVariable);
  struct stat file {};
  return expected && fstat(descriptor, &file) == 0 && S_ISFIFO(file.st_mode) &&
         text_of(descriptor, file) == expected;
}

void write_report(int culprit) noexcept {
  std::array<char, 16> line{};
  char* const end = std::to_chars(line.data(), line.data() + line.size() - 1, culprit).ptr;
  *end = '\n';
  const NoBrokenPipe guard;
  // A line this short is written whole or not at all. A launcher that is gone does not need it.
  [[maybe_unused]] const ssize_t written =
      write(kReportDescriptor, line.data(), static_cast<std::size_t>(end + 1 - line.data()));
}

}  // namespace

std::string report_variable(const Descriptor& pipe) {
  struct stat file {};
  if (fstat(pipe.number(), &file) != 0) return {};
  return concat(kReportVariable, '=', text_of(kReportDescriptor, file));
}

void report_culprit(int culprit) noexcept {
  if (!has_reported.exchange(true) && is_pipe_of_launcher(kReportDescriptor)) write_report(culprit);
}

void retract_report() noexcept {
  if (has_reported.exchange(false) && is_pipe_of_launcher(kReportDescriptor))
    write_report(kRetracted);
}

std::optional<int> read_report(const Descriptor& pipe) {
  std::array<char, kMostBytes> bytes{};
  const ssize_t count = read(pipe.number(), bytes.data(), bytes.size());
  const char* at = bytes.data();
  const char* const end = at + std::max<ssize_t>(count, 0);
  std::optional<int> report;
  while (at != end) {
    int culprit = 0;
    const auto [stop, error] = std::from_chars(at, end, culprit);
    if (error != std::errc() || stop == end || *stop != '\n') break;
    if (culprit == kRetracted)
      report.reset();
    else if (!report && culprit >= kNobody)
      report = culprit;
    at = stop + 1;
  }
  return report;
}

}  // namespace ringrad
