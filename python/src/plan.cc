// Plans: the tables of what each rank sends and computes, with their proofs, costs and drawings.

#include "bindings.h"

namespace ringrad::python {

void bind_plan_types(nb::module_& m) {
  nb::class_<Step>(m, "Step", "One step of one rank in a collective plan.")
      .def_ro("step", &Step::step, "Time slot, for readers.")
      .def_ro("rank", &Step::rank)
      .def_prop_ro("op", [](const Step& step) { return std::string(name(step.op)); })
      .def_ro("chunk", &Step::chunk, "Index of the chunk in the rank's buffer.")
      .def_ro("peers", &Step::peers, "Sends, recv: the one peer; recv_reduce: the terms, in order.")
      .def("__repr__", printed<Step>);

  nb::class_<CollectivePlan>(m, "CollectivePlan",
                             "Who sends which chunk to whom, and in which order.")
      .def_ro("collective", &CollectivePlan::collective)
      .def_ro("algorithm", &CollectivePlan::algorithm)
      .def_ro("world_size", &CollectivePlan::world_size)
      .def_ro("num_chunks", &CollectivePlan::num_chunks)
      .def_ro("root", &CollectivePlan::root)
      .def_ro("steps", &CollectivePlan::steps)
      .def("send", &CollectivePlan::send, "step"_a, "rank"_a, "chunk"_a, "to"_a,
           "Offers a chunk to another rank.")
      .def("recv", &CollectivePlan::recv, "step"_a, "rank"_a, "chunk"_a, "source"_a,
           "The chunk becomes the one that `source` offers next.")
      .def("recv_reduce", &CollectivePlan::recv_reduce, "step"_a, "rank"_a, "chunk"_a, "terms"_a,
           "The chunk becomes the sum of the terms' chunks, added in this order.")
      .def(
          "__eq__", [](const CollectivePlan& a, const CollectivePlan& b) { return a == b; },
          nb::is_operator())
      .def("_repr_svg_", [](const CollectivePlan& plan) { return collective_svg(plan); })
      .def("__repr__", printed<CollectivePlan>);

  nb::class_<CounterExample>(m, "CounterExample", "Where and how a plan fails.")
      .def_ro("rank", &CounterExample::rank)
      .def_ro("step_index", &CounterExample::step_index, "Into plan.steps.")
      .def_ro("chunk", &CounterExample::chunk)
      .def_ro("text", &CounterExample::text)
      .def("__repr__", printed<CounterExample>);

  nb::class_<LinkCost>(m, "LinkCost", "A message of B bytes takes alpha_s + B beta_s_per_byte.")
      .def(
          "__init__",
          [](LinkCost* self, double alpha, double beta) {
            new (self) LinkCost{alpha, beta};
          },
          "alpha_s"_a = 0.0, "beta_s_per_byte"_a = 0.0)
      .def_rw("alpha_s", &LinkCost::alpha_s)
      .def_rw("beta_s_per_byte", &LinkCost::beta_s_per_byte);
  nb::class_<CostModel>(m, "CostModel",
                        "What messages and sums cost, and which messages share a link.")
      .def(
          "__init__",
          [](CostModel* self, const LinkCost& within, const std::optional<LinkCost>& between,
             double gamma, std::optional<int> ranks_per_host, Wiring wiring, int slots) {
            new (self)
                CostModel{.within_host = within,
                          .between_hosts = between.value_or(within),
                          .gamma_s_per_byte = gamma,
                          .ranks_per_host = ranks_per_host.value_or(CostModel().ranks_per_host),
                          .wiring = wiring,
                          .slots = slots};
          },
          "within_host"_a = LinkCost(), "between_hosts"_a = nb::none(), "gamma_s_per_byte"_a = 0.0,
          "ranks_per_host"_a = nb::none(), "wiring"_a = Wiring::ports, "slots"_a = 1)
      .def_rw("within_host", &CostModel::within_host)
      .def_rw("between_hosts", &CostModel::between_hosts)
      .def_rw("gamma_s_per_byte", &CostModel::gamma_s_per_byte)
      .def_rw("ranks_per_host", &CostModel::ranks_per_host)
      .def_rw("wiring", &CostModel::wiring)
      .def_rw("slots", &CostModel::slots);
  nb::class_<StepTime>(m, "StepTime",
                       "When a step happens, in seconds after the collective begins.")
      .def_ro("start_s", &StepTime::start_s)
      .def_ro("end_s", &StepTime::end_s);
  nb::class_<Topology>(m, "Topology", "Devices and the links between them.")
      .def_ro("name", &Topology::name)
      .def_ro("num_devices", &Topology::num_devices)
      .def_ro("links", &Topology::links);
  m.def("named_topology", &named_topology, "name"_a, "num_devices"_a,
        "A machine by name: \"dgx-h100\", ...");
}

}  // namespace ringrad::python
