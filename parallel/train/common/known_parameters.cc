#include "ringrad/parallel/train/common/known_parameters.h"

namespace ringrad {

KnownParameters::KnownParameters(const char* scheme, const nn::Module& module)
    : scheme_(scheme), module_(module) {
  const std::vector<Tensor> all = module.parameters();
  count_ = all.size();
  for (const Tensor& parameter : all)
    if (!parameter.requires_grad()) frozen_.push_back(parameter);
}

void KnownParameters::check(Where where) const {
  const std::size_t count = module_.parameters().size();
  RINGRAD_CHECK(count == count_, AutogradError, where, scheme_,
                ": a module must keep the parameters that it had when it was made; got ", count,
                " parameters now and ", count_, " then; make a new one");
  for (const Tensor& parameter : frozen_)
    RINGRAD_CHECK(!parameter.requires_grad(), AutogradError, where, scheme_,
                  ": a parameter that was frozen when it was made must stay so; got one of "
                  "shape ",
                  parameter.shape(), " that requires a gradient now; make a new one");
}

}  // namespace ringrad
