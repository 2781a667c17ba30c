#include "ringrad/parallel/train/common/known_parameters.h"

namespace ringrad {

std::vector<Tensor> trained_parameters(const nn::Module& module) {
  std::vector<Tensor> trained;
  for (const Tensor& parameter : module.parameters())
    if (parameter.requires_grad()) trained.push_back(parameter);
  return trained;
}

KnownParameters::KnownParameters(const char* scheme, const nn::Module& module)
    : scheme_(scheme), module_(module) {
  for (const Tensor& parameter : module.parameters())
    if (parameter.requires_grad())
      trained_.emplace(parameter.impl(), parameter);
    else
      frozen_.push_back(parameter);
}

void KnownParameters::check(Where where) const {
  for (const Tensor& parameter : frozen_)
    RINGRAD_CHECK(!parameter.requires_grad(), AutogradError, where, scheme_,
                  ": a parameter that was frozen when it was made must stay so; got one of "
                  "shape ",
                  parameter.shape(), " that requires a gradient now; make a new one");
  for (const Tensor& parameter : module_.parameters())
    RINGRAD_CHECK(!parameter.requires_grad() || trained_.contains(parameter.impl()), AutogradError,
                  where, scheme_,
                  ": a module must train the parameters that it had when it was made; got one of "
                  "shape ",
                  parameter.shape(), " that was added since; make a new one");
}

}  // namespace ringrad
