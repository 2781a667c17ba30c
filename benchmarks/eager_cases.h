// The cases of single small operations, where the time is the library's own overhead; for
// operator_cases.h, which explains `Library`.
//
//   eager/add               one element, with and without the tape, per operation
//   eager/chain             y = y * b, N times: forward, backward and freeing, per node

#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ringrad/benchmarks/cases.h"
#include "ringrad/benchmarks/timing.h"

namespace ringrad::bench {

template <class Library>
class EagerCases {
 public:
  static void append_to(std::vector<Case>& cases) {
    add_single(cases);
    for (int n : {1'000, 10'000, 100'000, 1'000'000}) add_chain(cases, n);
  }

 private:
  using Tensor = typename Library::Tensor;

  static Tensor one_element() {
    Tensor x = Library::ones({1});
    Library::mark_leaf(x);
    return x;
  }

  static void add_single(std::vector<Case>& cases) {
    constexpr int kCalls = 1000;
    for (bool tape : {false, true}) {
      const std::string name = tape ? "eager/add_with_tape" : "eager/add_without_tape";
      cases.push_back({name, [=](const Report& report) {
                         const Tensor a = one_element(), b = one_element();
                         const typename Library::Recording recording(tape);
                         const Timing timing = bench::time_calls(report.threads(), [&] {
                           for (int i = 0; i < kCalls; ++i) a + b;
                         });
                         report.time(name, per_item(timing, kCalls));
                       }});
    }
  }

  // Seconds of the three phases in the life of one chain of n nodes.
  struct ChainSeconds {
    double forward, backward, release;
  };

  static ChainSeconds run_chain(int n) {
    const Tensor a = one_element(), b = one_element();
    const double start = now_seconds();
    Tensor y = a;
    for (int i = 0; i < n; ++i) y = y * b;
    const double built = now_seconds();
    y.backward();
    const double walked = now_seconds();
    y = Tensor();
    return {built - start, walked - built, now_seconds() - walked};
  }

  static void add_chain(std::vector<Case>& cases, int n) {
    const std::string extents = "/N:" + std::to_string(n);
    cases.push_back({"eager/chain" + extents, [=](const Report& report) {
                       run_chain(std::min(n, 10'000));
                       const MachineWatch watch(report.threads());
                       const double own = process_cpu_seconds();
                       std::vector<double> forward, backward, release;
                       for (int i = 0; i < std::clamp(300'000 / n, 3, 100); ++i) {
                         const ChainSeconds seconds = run_chain(n);
                         forward.push_back(seconds.forward);
                         backward.push_back(seconds.backward);
                         release.push_back(seconds.release);
                       }
                       const auto record = [&](const char* phase, std::vector<double>& samples) {
                         const Timing timing = watch.judge(samples, process_cpu_seconds() - own);
                         report.time("eager/chain_" + std::string(phase) + extents,
                                     per_item(timing, n));
                       };
                       record("forward", forward);
                       record("backward", backward);
                       record("free", release);
                     }});
  }
};

}  // namespace ringrad::bench
