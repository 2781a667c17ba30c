// What the reducer's communication has cost.

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <sstream>
#include <utility>

#include "ringrad/parallel/train/data_parallel/reducer.h"

namespace ringrad {

CommunicationSummary Reducer::summary() {
  const CommunicationStream::Times times = stream_.take_times();
  summary_.communication_s += times.work_s;
  summary_.exposed_s += times.waited_s;
  summary_.unused.clear();
  if (summary_.num_passes > 0)
    for (const Parameter& parameter : parameters_)
      if (parameter.arrival == 0) summary_.unused.push_back(parameter.name);
  return summary_;
}

std::ostream& operator<<(std::ostream& out, const CommunicationSummary& summary) {
  const auto passes = static_cast<double>(std::max<std::int64_t>(summary.num_passes, 1));
  std::int64_t bytes = 0;
  for (const std::int64_t bucket : summary.bucket_bytes) bytes += bucket;
  std::ostringstream text;  // leaves the stream's format alone
  text << std::fixed << std::setprecision(3) << summary.num_passes << " passes reduced "
       << static_cast<double>(bytes) / 1e6 << " MB each in " << summary.bucket_bytes.size()
       << (summary.bucket_bytes.size() == 1 ? " bucket" : " buckets")
       << (summary.follows_arrival ? ", in the order of arrival" : "") << "; "
       << summary.communication_s * 1e3 / passes << " ms of communication per pass, of which "
       << summary.exposed_s * 1e3 / passes << " ms were waited for: " << std::setprecision(0)
       << summary.overlap() * 100 << " % hidden";
  if (!summary.overlaps) text << " (without overlap)";
  const char* before = "; not reached: ";
  for (const std::string& name : summary.unused) text << std::exchange(before, ", ") << name;
  return out << text.str();
}

}  // namespace ringrad
