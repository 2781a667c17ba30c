#include "ringrad/benchmarks/cases.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <numeric>
#include <regex>
#include <stdexcept>

namespace ringrad::bench {
namespace {

constexpr double kStepSeconds = 1.5;
constexpr int kLossWindow = 8;  // steps: one pass over the rotating batches

struct Arguments {
  std::string suite;
  std::regex only{""};
  bool list = false;
};

Arguments parse(int argc, char** argv, const std::string& default_suite) {
  Arguments arguments{.suite = default_suite};
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--list") {
      arguments.list = true;
    } else if ((flag == "--suite" || flag == "--only") && i + 1 < argc) {
      const std::string value = argv[++i];
      if (flag == "--suite") {
        arguments.suite = value;
      } else {
        arguments.only = std::regex(value);
      }
    } else {
      throw std::invalid_argument("usage: [--suite NAME] [--only REGEX] [--list]; got " + flag);
    }
  }
  return arguments;
}

int threads_from_environment() {
  const char* value = std::getenv("OMP_NUM_THREADS");
  const int threads = value == nullptr ? 1 : std::atoi(value);
  return threads > 0 ? threads : 1;
}

// A line of /proc/self/status such as "VmHWM:   123456 kB", in MiB.
double status_mebibytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::atof(line.c_str() + key.size()) / 1024;
  }
  throw std::runtime_error("/proc/self/status: no line " + key);
}

float mean_loss(const std::function<float()>& step) {
  float sum = 0;
  for (int i = 0; i < kLossWindow; ++i) sum += step();
  return sum / kLossWindow;
}

}  // namespace

void Report::time(const std::string& name, const Timing& timing, Work work) const {
  std::printf("%s\t%s\t%d\t%.5g\t%.1f\t%.5g\t%s\t%.0f\t%s\n", suite_.c_str(), name.c_str(),
              threads_, timing.us, timing.iqr_percent, work.amount / timing.us * 1e6, work.unit,
              timing.reference_gbps, timing.busy ? "busy" : "-");
  std::fflush(stdout);
}

void Report::memory(const std::string& name, double mebibytes) const {
  std::printf("%s\t%s\t%d\t0\t0\t%.5g\tMiB\t0\t-\n", suite_.c_str(), name.c_str(), threads_,
              mebibytes);
  std::fflush(stdout);
}

void Report::time_calls(const std::string& name, Work work,
                        const std::function<void()>& call) const {
  time(name, bench::time_calls(threads_, call), work);
}

Case step_case(const std::string& name, int batch,
               const std::function<std::function<float()>()>& build) {
  return {"step/" + name, [=](const Report& report) {
            const double before = status_mebibytes("VmRSS:");
            const std::function<float()> step = build();
            const float first_loss = mean_loss(step);
            const Timing timing = time_calls(report.threads(), step, kStepSeconds);
            const float last_loss = mean_loss(step);
            if (!(last_loss < first_loss)) {
              throw std::runtime_error("training step: the loss must fall; got " +
                                       std::to_string(first_loss) + " at first and " +
                                       std::to_string(last_loss) + " at last");
            }
            report.time("step/" + name, timing, images(batch));
            const double peak = status_mebibytes("VmHWM:");
            report.memory("memory_peak/" + name, peak);
            report.memory("memory_growth/" + name, peak - before);
          }};
}

int run_cases(int argc, char** argv, const std::string& default_suite,
              const std::vector<Case>& cases) {
  int status = EXIT_SUCCESS;
  try {
    const Arguments arguments = parse(argc, argv, default_suite);
    const Report report(arguments.suite, threads_from_environment());
    for (const Case& one : cases) {
      if (!std::regex_search(one.name, arguments.only)) continue;
      if (arguments.list) {
        std::puts(one.name.c_str());
        continue;
      }
      try {
        one.run(report);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s: %s\n", arguments.suite.c_str(), one.name.c_str(),
                     error.what());
        status = EXIT_FAILURE;
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    status = EXIT_FAILURE;
  }
  return status;
}

}  // namespace ringrad::bench
