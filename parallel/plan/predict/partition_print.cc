// Prints a partition: a line per stage,
//
//    stage  device  layers   forward ms  backward ms  messages ms  of slowest    memory
//        0       0  0 ... 4       1.250        2.500        0.100        77 %  12.0 MiB
//        1       1  5 ... 9       1.500        3.400        0.100       100 %  20.5 MiB  bottleneck
//
// and the expected gain.

#include <algorithm>
#include <iomanip>
#include <ostream>

#include "ringrad/parallel/plan/collective/require.h"
#include "ringrad/parallel/plan/predict/partition.h"

namespace ringrad {
namespace {

std::string fixed(double value, int digits) {
  return text_of(std::fixed, std::setprecision(digits), value);
}

std::string bytes_text(std::int64_t bytes) {
  constexpr double kMebi = 1 << 20, kKibi = 1 << 10;
  const auto count = static_cast<double>(bytes);
  if (count >= kMebi) return fixed(count / kMebi, 1) + " MiB";
  if (count >= kKibi) return fixed(count / kKibi, 1) + " KiB";
  return fixed(count, 0) + " B";
}

std::string layers_text(const StageCost& stage) {
  return stage.end - stage.begin == 1 ? stage.first : stage.first + " ... " + stage.last;
}

std::string step_text(const StepPrediction& step) {
  return fixed(1e3 * step.seconds, 3) + " ms, bubble " + fixed(100 * step.bubble, 0) + " %";
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Partition& partition) {
  std::size_t width = 6;
  for (const StageCost& stage : partition.stages)
    width = std::max(width, layers_text(stage).size());
  const auto names = static_cast<int>(width);
  out << "stage  device  " << std::left << std::setw(names) << "layers" << std::right
      << "  forward ms  backward ms  messages ms  of slowest      memory\n";
  const std::size_t slowest = partition.bottleneck();
  const double slowest_s = partition.stages[slowest].seconds();
  for (std::size_t s = 0; s < partition.stages.size(); ++s) {
    const StageCost& stage = partition.stages[s];
    const double share = slowest_s > 0 ? 100 * stage.seconds() / slowest_s : 100;
    out << std::setw(5) << s << std::setw(8) << stage.device << "  " << std::left
        << std::setw(names) << layers_text(stage) << std::right << std::setw(12)
        << fixed(1e3 * stage.forward_s, 3) << std::setw(13) << fixed(1e3 * stage.backward_s, 3)
        << std::setw(13) << fixed(1e3 * stage.message_s, 3) << std::setw(10) << fixed(share, 0)
        << " %" << std::setw(12) << bytes_text(stage.memory_bytes)
        << (s == slowest ? "  bottleneck\n" : "\n");
  }
  const std::int64_t limit = partition.memory_limit_bytes;
  if (limit > 0)
    out << "memory: " << bytes_text(partition.step.memory_bytes) << " of " << bytes_text(limit)
        << " on the fullest device\n";
  const StepPrediction& uniform = partition.uniform_step;
  out << "predicted for " << partition.num_micro_batches
      << " micro-batches: " << step_text(partition.step) << "; cut uniformly "
      << step_text(uniform);
  if (limit > 0 && uniform.memory_bytes > limit)
    out << ", but " << bytes_text(uniform.memory_bytes) << " on a device";
  return out << '\n';
}

}  // namespace ringrad
