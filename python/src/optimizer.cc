// Optimizers, and the groups of parameters that they take.

#include "bindings.h"

namespace ringrad::python {

void bind_optimizer(nb::module_& m) {
  nb::class_<nn::ParameterGroup>(m, "ParameterGroup", "Parameters that an optimizer treats alike.")
      .def(
          "__init__",
          [](nn::ParameterGroup* self, std::vector<Tensor> parameters, double learning_rate_scale,
             std::optional<double> weight_decay) {
            new (self) nn::ParameterGroup{std::move(parameters), learning_rate_scale, weight_decay};
          },
          "parameters"_a, nb::kw_only(), "learning_rate_scale"_a = 1.0,
          "weight_decay"_a = nb::none())
      .def_prop_rw(
          "parameters",
          [](const nn::ParameterGroup& self) { return nb::tuple(nb::cast(self.parameters)); },
          [](nn::ParameterGroup& self, std::vector<Tensor> parameters) {
            self.parameters = std::move(parameters);
          },
          "A tuple; another list may be assigned.")
      .def_rw("learning_rate_scale", &nn::ParameterGroup::learning_rate_scale)
      .def_rw("weight_decay", &nn::ParameterGroup::weight_decay);

  // An optimizer takes a list of tensors or of groups.
  nb::class_<nn::ParameterGroups>(m, "ParameterGroups")
      .def(nb::init<std::vector<Tensor>>(), "parameters"_a)
      .def(nb::init<std::vector<nn::ParameterGroup>>(), "groups"_a);
  nb::implicitly_convertible<std::vector<Tensor>, nn::ParameterGroups>();
  nb::implicitly_convertible<std::vector<nn::ParameterGroup>, nn::ParameterGroups>();

  nb::class_<nn::Optimizer>(m, "Optimizer", "The common part of SGD, Adam and others.")
      .def(
          "step", [](nn::Optimizer& self) { called([&](Where where) { self.step(where); }); },
          "Updates the parameters by their gradients.")
      .def(
          "zero_grad", [](const nn::Optimizer& self) { self.zero_grad(); }, "Clears all gradients.")
      .def_prop_rw(
          "learning_rate", [](const nn::Optimizer& self) { return self.learning_rate(); },
          [](nn::Optimizer& self, double rate) { self.set_learning_rate(rate, caller()); })
      .def(
          "clip_grad_norm",
          [](nn::Optimizer& self, double most) {
            return called(
                [&](Where where) { return nn::clip_grad_norm(self.arenas(), most, where); });
          },
          "max_norm"_a,
          "Scales the gradients so that their norm is at most this; returns the norm before.")
      .def_prop_ro("parameters", &nn::Optimizer::parameters)
      .def("state_dict", &nn::Optimizer::state_dict,
           "The state after the steps so far. Later steps change its tensors, which are the "
           "optimizer's own: clone() those to keep.")
      .def(
          "load_state_dict",
          [](nn::Optimizer& self, const nn::StateDict& state) {
            called([&](Where where) { self.load_state_dict(state, where); });
          },
          "state"_a, "Restores a state.")
      .def("__reduce_ex__", refuse_copy<nn::Optimizer>);
}

}  // namespace ringrad::python
