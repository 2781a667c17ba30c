#include "ringrad/benchmarks/timing.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

namespace ringrad::bench {
namespace {

constexpr double kSampleSeconds = 2e-3;
constexpr int kMinSamples = 9;
constexpr int kMaxSamples = 101;

// CPU seconds of all processes: user + nice + system of the first line of /proc/stat.
double machine_cpu_seconds() {
  std::ifstream stat("/proc/stat");
  std::string label;
  double user = 0, nice = 0, system = 0;
  stat >> label >> user >> nice >> system;
  return (user + nice + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// GB/s of c = a + b in the first-level cache of the calling thread's CPU.
double reference_loop() {
  constexpr int kFloats = 2048;
  constexpr int kRepeats = 3000;
  alignas(64) float a[kFloats] = {}, b[kFloats] = {}, c[kFloats];
  const double start = now_seconds();
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    for (int i = 0; i < kFloats; ++i) c[i] = a[i] + b[i];
    asm volatile("" : : "r"(c) : "memory");  // every repeat writes c anew
  }
  return 3.0 * sizeof(a) * kRepeats / (now_seconds() - start) * 1e-9;
}

// The slowest of `threads` loops that run at once: virtual CPUs may share one core.
double reference_speed(int threads) {
  std::vector<double> gbps(static_cast<size_t>(threads));
  std::vector<std::thread> others;
  for (size_t i = 1; i < gbps.size(); ++i) {
    others.emplace_back([&gbps, i] { gbps[i] = reference_loop(); });
  }
  gbps[0] = reference_loop();
  for (std::thread& thread : others) thread.join();
  return *std::min_element(gbps.begin(), gbps.end());
}

double percentile(const std::vector<double>& sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return percentile(values, 0.5);
}

double now_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

double process_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

MachineWatch::MachineWatch(int threads)
    : threads_(threads),
      reference_gbps_(reference_speed(threads)),
      start_(now_seconds()),
      machine_cpu_(machine_cpu_seconds()) {}

Timing MachineWatch::judge(std::vector<double> samples, double own_cpu_seconds) const {
  // /proc/stat counts in ticks of 10 ms, hence the tolerance of 30 ms.
  const double foreign = machine_cpu_seconds() - machine_cpu_ - own_cpu_seconds;
  const bool busy = foreign > 0.03 + 0.06 * (now_seconds() - start_);
  std::sort(samples.begin(), samples.end());
  const double middle = percentile(samples, 0.5);
  const double range = percentile(samples, 0.75) - percentile(samples, 0.25);
  return {.us = middle * 1e6,
          .iqr_percent = range / middle * 100,
          .reference_gbps = std::min(reference_gbps_, reference_speed(threads_)),
          .busy = busy};
}

Timing time_samples(int threads, const std::function<std::vector<double>()>& take_samples) {
  const MachineWatch watch(threads);
  const double own = process_cpu_seconds();
  std::vector<double> samples = take_samples();
  return watch.judge(std::move(samples), process_cpu_seconds() - own);
}

Timing time_calls(int threads, const std::function<void()>& call, double seconds) {
  const auto time_batch = [&call](int batch) {
    const double start = now_seconds();
    for (int i = 0; i < batch; ++i) call();
    return (now_seconds() - start) / batch;
  };
  time_batch(2);
  double per_call = time_batch(1);
  per_call =
      time_batch(std::max(3, static_cast<int>(0.1 / per_call)));  // the warm-up: 0.1 s or more
  const int batch = std::max(1, static_cast<int>(kSampleSeconds / per_call));
  const int count =
      std::clamp(static_cast<int>(seconds / (per_call * batch)), kMinSamples, kMaxSamples);
  return time_samples(threads, [&] {
    std::vector<double> samples;
    for (int i = 0; i < count; ++i) samples.push_back(time_batch(batch));
    return samples;
  });
}

Timing per_item(Timing timing, int count) {
  timing.us /= count;
  return timing;
}

}  // namespace ringrad::bench
