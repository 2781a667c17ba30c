#include "ringrad/parallel/comm/network/mpi_segments.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/descriptor.h"

namespace ringrad {
namespace {

constexpr std::string_view kPrefixes[] = {"vader_segment.", "sm_segment."};
constexpr const char* kFolder = "/dev/shm";

bool is_segment(const std::filesystem::path& path) {
  const std::string name = path.filename();
  return std::ranges::any_of(kPrefixes, [&](auto prefix) { return name.starts_with(prefix); });
}

// What this process has mapped, its own and those of other ranks of the host.
std::vector<std::string> mapped_segments() {
  std::vector<std::string> segments;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto begin = line.find('/');
    if (begin == line.npos) continue;
    const std::string path = line.substr(begin, line.find(' ', begin) - begin);  // "... (deleted)"
    if (is_segment(path)) segments.push_back(path);
  }
  return segments;
}

// ".0.46810001." of "sm_segment.host.0.46810001.3"
std::string part_in(const std::string& path) {
  const auto rank = path.rfind('.'), job = path.rfind('.', rank - 1);
  const auto user = path.rfind('.', job - 1);
  return path.substr(user, rank + 1 - user);
}

// That of this user's job; empty if it is not OpenMPI's. OpenMPI 4.1 has its number in the
// environment. OpenMPI 5 has a text there, and the number in the names alone.
std::string part_of_job() {
  const char* text = std::getenv("PMIX_NAMESPACE");
  if (!text) return {};
  const auto mapped = mapped_segments();
  if (!mapped.empty()) return part_in(mapped[0]);
  const std::string_view digits = text;
  std::uint32_t job = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), job);
  if (error != std::errc() || end != digits.data() + digits.size()) return {};
  char hex[8];
  const auto hex_end = std::to_chars(hex, hex + sizeof hex, job, 16).ptr;
  return concat('.', geteuid(), '.', std::string_view(hex, static_cast<std::size_t>(hex_end - hex)),
                '.');
}

// The path of what this process has mapped; empty for none.
std::string own_segment() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  const std::string part = part_of_job();
  if (!rank || part.empty()) return {};
  for (const std::string& path : mapped_segments())
    if (path.ends_with(part + rank)) return path;
  return {};
}

}  // namespace

NamelessSegment::NamelessSegment() : path_(own_segment()) {
  if (!path_.empty()) unlink(path_.c_str());
}

void NamelessSegment::restore_name() const {
  if (!path_.empty())
    Descriptor(open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
}

void remove_job_segments() {
  const std::string part = part_of_job();
  if (part.empty()) return;
  std::error_code error;
  for (std::filesystem::directory_iterator at(kFolder, error), end; !error && at != end;
       at.increment(error))
    if (is_segment(at->path()) && at->path().string().find(part) != std::string::npos)
      unlink(at->path().c_str());
}

}  // namespace ringrad
