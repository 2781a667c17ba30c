// Plans: the tables of what each rank sends and computes, with their proofs, costs and drawings.

#include "bindings.h"

namespace ringrad::python {
namespace {

using Seconds = std::vector<double>;

// In units of a forward pass; messages take no time.
std::string picture(const PipelinePlan& plan) {
  return pipeline_svg(plan, pipeline_times(plan, {}), nullptr, {.unit = "units"});
}

}  // namespace

void bind_plan_types(nb::module_& m) {
  nb::class_<WorldSize>(m, "WorldSize", "The number of ranks to make a plan for: an int will do.")
      .def(nb::init_implicit<int>())
      .def(nb::init<int, int>(), "size"_a, "only"_a, "The steps of rank `only` alone.")
      .def_ro("world_size", &WorldSize::world_size)
      .def_ro("only_rank", &WorldSize::only_rank);

  nb::class_<Step>(m, "Step", "One step of one rank in a collective plan.")
      .def_ro("step", &Step::step, "Time slot, for readers.")
      .def_ro("rank", &Step::rank)
      .def_prop_ro("op", [](const Step& step) { return std::string(name(step.op)); })
      .def_ro("chunk", &Step::chunk, "Index of the chunk in the rank's buffer.")
      .def_prop_ro(
          "peers",
          [](const Step& step) { return std::vector<int>(step.peers.begin(), step.peers.end()); },
          "Sends, recv: the one peer; recv_reduce: the terms, in order.")
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
      .def(
          "recv_reduce",
          [](CollectivePlan& plan, int step, int rank, int chunk, const std::vector<int>& terms) {
            plan.recv_reduce(step, rank, chunk, terms);
          },
          "step"_a, "rank"_a, "chunk"_a, "terms"_a,
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
  nb::class_<AllReduceChoice>(m, "AllReduceChoice", "The fastest algorithm under a cost model.")
      .def_ro("algorithm", &AllReduceChoice::algorithm)
      .def_ro("seconds", &AllReduceChoice::seconds);
  nb::class_<Topology>(m, "Topology", "Devices and the links between them.")
      .def_ro("name", &Topology::name)
      .def_ro("num_devices", &Topology::num_devices)
      .def_ro("links", &Topology::links);

  nb::class_<PipelineAction>(m, "PipelineAction", "One action of one device in a pipeline's plan.")
      .def(
          "__init__",
          [](PipelineAction* self, PipelineOp op, int stage, int micro_batch) {
            new (self) PipelineAction{op, stage, micro_batch};
          },
          "op"_a, "stage"_a, "micro_batch"_a)
      .def_ro("op", &PipelineAction::op)
      .def_ro("stage", &PipelineAction::stage)
      .def_ro("micro_batch", &PipelineAction::micro_batch)
      .def("__repr__", printed<PipelineAction>);
  nb::class_<PipelinePlan>(m, "PipelinePlan",
                           "Which device computes what for which micro-batch, in which order.")
      .def_ro("schedule", &PipelinePlan::schedule)
      .def_ro("num_devices", &PipelinePlan::num_devices)
      .def_ro("num_stages", &PipelinePlan::num_stages)
      .def_ro("num_micro_batches", &PipelinePlan::num_micro_batches)
      .def_rw("actions", &PipelinePlan::actions,
              "A list for each device, in its order. It is a copy: assign a whole new one.")
      .def(
          "__eq__", [](const PipelinePlan& a, const PipelinePlan& b) { return a == b; },
          nb::is_operator())
      .def("_repr_svg_", &picture)
      .def("__repr__", printed<PipelinePlan>);
  nb::class_<PipelineCounterExample>(m, "PipelineCounterExample",
                                     "Where and how a pipeline's plan fails.")
      .def_ro("device", &PipelineCounterExample::device)
      .def_ro("index", &PipelineCounterExample::index, "Into the device's actions.")
      .def_ro("text", &PipelineCounterExample::text)
      .def("__repr__", printed<PipelineCounterExample>);
  nb::class_<PipelineCosts>(m, "PipelineCosts",
                            "Seconds per micro-batch of each stage; stages beyond a list use its "
                            "last number.")
      .def(
          "__init__",
          [](PipelineCosts* self, const Seconds& forward, const Seconds& backward_input,
             const Seconds& backward_weight, const Seconds& message, const Seconds& copy,
             const Seconds& contention) {
            new (self)
                PipelineCosts{forward, backward_input, backward_weight, message, copy, contention};
          },
          "forward_s"_a = Seconds{1}, "backward_input_s"_a = Seconds{1},
          "backward_weight_s"_a = Seconds{1}, "message_s"_a = Seconds{0}, "copy_s"_a = Seconds{0},
          "contention"_a = Seconds{1})
      .def_ro("forward_s", &PipelineCosts::forward_s)
      .def_ro("backward_input_s", &PipelineCosts::backward_input_s)
      .def_ro("backward_weight_s", &PipelineCosts::backward_weight_s)
      .def_ro("message_s", &PipelineCosts::message_s)
      .def_ro("copy_s", &PipelineCosts::copy_s)
      .def_ro("contention", &PipelineCosts::contention);
  nb::class_<PipelineTimes> times(m, "PipelineTimes", "When each action of a pipeline happens.");
  nb::class_<PipelineTimes::Span>(times, "Span")
      .def(
          "__init__",
          [](PipelineTimes::Span* self, double start, double end) {
            new (self) PipelineTimes::Span{start, end};
          },
          "start_s"_a, "end_s"_a)
      .def_ro("start_s", &PipelineTimes::Span::start_s)
      .def_ro("end_s", &PipelineTimes::Span::end_s);
  times.def_ro("spans", &PipelineTimes::spans, "Of the plan's actions.")
      .def_ro("total_s", &PipelineTimes::total_s)
      .def_ro("bubble", &PipelineTimes::bubble,
              "The share of the devices' time in which they do not compute.");
  nb::class_<PipelineRun>(m, "PipelineRun", "A plan, and when its actions ran.")
      .def(
          "__init__",
          [](PipelineRun* self, const PipelinePlan& plan, const PipelineTimes& times) {
            new (self) PipelineRun{plan, times_of_spans(plan, times.spans)};
          },
          "plan"_a, "times"_a)
      .def_ro("plan", &PipelineRun::plan)
      .def_ro("times", &PipelineRun::times);
  m.def("named_topology", &named_topology, "name"_a, "num_devices"_a,
        "A machine by name: \"nvlink8\", ...");
}

}  // namespace ringrad::python
