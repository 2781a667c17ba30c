#pragma once

// One rank of a case of benchmarks/collectives, whatever it runs on, and how it is measured.
//
//     SharedCase        memory that all ranks see: the case, their meeting place, what was measured
//     RankEnd           one rank's end of a backend, ours or a peer's: makes tensors and calls
//     measure()         fills, calls, judges, and times, out of place and in place

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "ringrad/benchmarks/collective_case.h"
#include "ringrad/benchmarks/collective_timing.h"

namespace ringrad::bench {

/// One column of the table.
struct Column {
  bool has_time = false;
  Timing time;
  double wall_us = 0;       ///< of a call on simulated GPUs, whose `time` is simulated
  std::int64_t wrong = -1;  ///< over all ranks; -1 if results are not judged
};

struct Measured {
  Column out_of_place, in_place;
  bool is_simulated = false;
  std::array<char, 64> device{};  ///< a GPU's name

  Column& column(bool is_in_place) { return is_in_place ? in_place : out_of_place; }
  const Column& column(bool is_in_place) const { return is_in_place ? in_place : out_of_place; }
};

/// REQUIRES: lies in zeroed memory that all ranks share
struct SharedCase {
  CollectiveCase one;
  RankBoard board;
  Measured measured;
  std::array<std::atomic<std::int64_t>, 2> wrong{};
  std::array<char, 64> folder{};  ///< a folder for this case alone

  /// Publishes a string to all ranks, once. / Waits for that string.
  void publish(const std::string& word);
  std::string published();

  /// Keeps the first failure, and makes ranks that wait for this rank fail.
  void fail(const std::string& reason);
  /// The first failure, or "".
  std::string failure() const;

 private:
  std::atomic<int> has_word_{0}, has_failed_{0};
  std::array<char, 256> word_{};
  std::array<char, 1024> failure_{};
};

class RankEnd {
 public:
  virtual ~RankEnd() = default;

  /// True if this backend has the case. (In place: the output is the input, or this rank's part of
  /// it.)
  virtual bool has(const CollectiveCase& one, bool in_place) const = 0;

  /// A tensor in the memory that suits this backend.
  virtual Tensor make_tensor(std::int64_t count, DType dtype);

  /// Returns a function that makes one call of the collective.
  virtual std::function<void()> prepare(const CollectiveCase& one, const Tensor& output,
                                        const Tensor& input) = 0;

  /// Called on all ranks before run(), while no rank makes a call.
  virtual void settle() {}

  /// Makes calls and waits until they are done; returns their seconds, which may be simulated, and
  /// in `wall` the real seconds.
  virtual double run(const std::function<void()>& call, int calls, double& wall);

  /// False for limits, whose results mean nothing.
  virtual bool is_judged() const { return true; }

  /// Notes the device that this rank runs on.
  virtual void describe(Measured&) const {}
};

/// Measures a case. All ranks must call this.
///
/// Throws: the backend's errors; std::runtime_error if the ranks do not meet
void measure(SharedCase& shared, int rank, RankEnd& end);

}  // namespace ringrad::bench
