#pragma once

// Our ranks, on CPUs and GPUs, and the limits of GPUs, as benchmarks/collectives measures them.

#include <optional>

#include "ringrad/benchmarks/collective_rank.h"
#include "ringrad/core/base/device.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/communicator.h"

namespace ringrad::bench {

/// A rank whose tensors are on the CPU, from Communicator::empty_shared or from the heap.
class OurRank : public RankEnd {
 public:
  OurRank(Communicator& comm, bool in_shared_memory)
      : comm_(comm), in_shared_memory_(in_shared_memory) {}

  bool has(const CollectiveCase& one, bool in_place) const override;
  Tensor make_tensor(std::int64_t count, DType dtype) override;
  std::function<void()> prepare(const CollectiveCase& one, const Tensor& output,
                                const Tensor& input) override;

 private:
  Communicator& comm_;
  bool in_shared_memory_;
};

/// A rank's GPU: a stream of its own, current as long as this object lives, and the GPU's clock.
class GpuSide {
 public:
  /// Throws: DeviceError if there is no GPU, or fewer than the case asks for
  GpuSide(const CollectiveCase& one, int rank);

  Device device() const { return device_; }
  Tensor make_tensor(std::int64_t count, DType dtype);
  /// Brings the simulated time of all ranks together.
  void settle();
  double run(const std::function<void()>& call, int calls, double& wall);
  void describe(Measured& measured) const;

 private:
  Device device_;
  DeviceGuard device_guard_;
  Stream stream_;
  StreamGuard stream_guard_;
};

class OurGpuRank final : public OurRank {
 public:
  OurGpuRank(Communicator& comm, GpuSide& gpu) : OurRank(comm, false), gpu_(gpu) {}

  Tensor make_tensor(std::int64_t count, DType dtype) override {
    return gpu_.make_tensor(count, dtype);
  }
  double run(const std::function<void()>& call, int calls, double& wall) override {
    return gpu_.run(call, calls, wall);
  }
  void settle() override { gpu_.settle(); }
  void describe(Measured& measured) const override { gpu_.describe(measured); }

 private:
  GpuSide& gpu_;
};

/// Measures a limit: all ranks at once copy as many bytes as the collective's output has, within
/// the CPU's memory or within a GPU's, or launch an empty kernel.
class LimitRank final : public RankEnd {
 public:
  /// REQUIRES: a GPU, unless the limit is memcpy
  LimitRank(const CollectiveCase& one, int rank);

  bool has(const CollectiveCase&, bool in_place) const override { return !in_place; }
  bool is_judged() const override { return false; }
  Tensor make_tensor(std::int64_t count, DType dtype) override;
  std::function<void()> prepare(const CollectiveCase& one, const Tensor& output,
                                const Tensor& input) override;
  double run(const std::function<void()>& call, int calls, double& wall) override;
  void settle() override {
    if (gpu_) gpu_->settle();
  }
  void describe(Measured& measured) const override;

 private:
  std::string name_;
  std::optional<GpuSide> gpu_;
};

}  // namespace ringrad::bench
