#include "ringrad/nn/optimizer/average_loss.h"

#include <mutex>
#include <utility>

namespace ringrad::nn {
namespace {

struct Living {
  std::mutex mutex;
  std::vector<const AverageLoss*> all;
};

Living& living() {
  static auto* const them = new Living;
  return *them;
}

}  // namespace

AverageLoss::AverageLoss(const std::vector<Tensor>& parameters, Average average)
    : average_(std::move(average)) {
  for (const Tensor& parameter : parameters) parameters_.insert(parameter.impl());
  const std::lock_guard lock(living().mutex);
  living().all.push_back(this);
}

AverageLoss::~AverageLoss() {
  const std::lock_guard lock(living().mutex);
  std::erase(living().all, this);
}

double AverageLoss::of(double loss, const std::vector<Tensor>& parameters, Where where) {
  Average average;
  {
    const std::lock_guard lock(living().mutex);
    for (const AverageLoss* each : living().all)
      for (const Tensor& parameter : parameters)
        if (each->parameters_.contains(parameter.impl())) average = each->average_;
  }
  return average ? average(loss, where) : loss;
}

}  // namespace ringrad::nn
