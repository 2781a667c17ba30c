// The module ringrad, and in it ringrad.nn, ringrad.linalg and ringrad.plan.

#include <utility>

#include "bindings.h"
#include "ringrad/core/base/version.h"

NB_MODULE(ringrad, m) {
  using namespace ringrad::python;
  static bool was_imported = false;  // classes and exceptions are bound once per process
  if (std::exchange(was_imported, true))
    throw nb::import_error(
        "ringrad must be imported once per process; got a second import, after "
        "it was removed from sys.modules");
  bind_errors(m);
  nb::module_ nn = m.def_submodule("nn", "Modules, optimizers, and files of tensors.");
  nb::module_ plan =
      m.def_submodule("plan", "Plans of collectives: made, proved, timed and drawn.");
  nb::module_ linalg = m.def_submodule("linalg", "Linear algebra on a CPU, by LAPACK.");
  bind_enums(m, nn);
  nb::class_<ringrad::Tensor> tensor = bind_tensor(m);
  bind_symbols(tensor);
  bind_operators(m, tensor);
  bind_memory(m, tensor);
  m.def(
      "version", [] { return ringrad::version(); }, "\"0.2.0\"");
  m.attr("__version__") = ringrad::version();
  bind_linalg(linalg);
  bind_module(nn);
  bind_containers(nn);
  bind_optimizer(nn);
  bind_nn(nn);
  bind_ranks(m);
  bind_plan_types(plan);
  bind_plan(plan);
  explain_arguments(m);
}
