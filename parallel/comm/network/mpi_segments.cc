#include "ringrad/parallel/comm/network/mpi_segments.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/descriptor.h"

namespace ringrad {
namespace {

constexpr std::string_view kPrefix = "vader_segment.";
constexpr const char* kFolder = "/dev/shm";

// ".0.46810001." of this user's job; empty if it is not OpenMPI's.
std::string part_of_job() {
  const char* text = std::getenv("PMIX_NAMESPACE");
  if (!text) return {};
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
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto begin = line.find('/');
    if (begin == line.npos || !line.ends_with(part + rank)) continue;
    const std::string path = line.substr(begin);
    if (std::filesystem::path(path).filename().string().starts_with(kPrefix)) return path;
  }
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
       at.increment(error)) {
    const std::string name = at->path().filename();
    if (name.starts_with(kPrefix) && name.find(part) != name.npos) unlink(at->path().c_str());
  }
}

}  // namespace ringrad
