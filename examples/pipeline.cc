// Pipeline: a ConvNet cut into stages, each on its own rank, which work on different micro-batches
// at the same time. Every schedule in turn trains it from the same initial values. For comparison
// each rank also trains the whole model alone; its stages get the same bits.
//
//     pipeline --world-size 4                         ranks are threads
//     pipeline --world-size 4 --device cuda           a GPU each, with the bubble by its clock
//     ringrun -n 4 pipeline --schedule 1f1b           processes
//     pipeline --json run.json                        for tools/draw pipeline --measured run.json

#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>

#include "ringrad/examples/job.h"
#include "ringrad/examples/shining_quarter.h"
#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

constexpr nn::SGDOptions kSgd{.learning_rate = 0.05, .momentum = 0.9};

struct Settings {
  std::string schedule = "all";
  int micro_batches = 8;
  int steps = 4;
  std::string json;
};

Tensor loss_of(const Tensor& output, const Tensor& target) { return cross_entropy(output, target); }

nn::Sequential make_net() {
  manual_seed(1);
  return deep_convnet();
}

// The reference for every pipeline: one micro-batch after the other.
void train_step_alone(nn::Module& net, const LabelledImages& batch, int micro_batches) {
  const std::int64_t rows = batch.images.size(0) / micro_batches;
  for (std::int64_t b = 0; b < micro_batches; ++b)
    (loss_of(net(slice(batch.images, 0, b * rows, (b + 1) * rows)),
             slice(batch.labels, 0, b * rows, (b + 1) * rows)) /
     micro_batches)
        .backward();
}

bool same_bits(const nn::Module& part, const nn::Module& whole) {
  const nn::StateDict all = whole.state_dict();
  for (const auto& [name, tensor] : part.state_dict()) {
    const auto x = tensor.to_vector<float>(), y = all.at(name).to_vector<float>();
    if (std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

int stages_per_rank(const std::string& schedule) { return takes_several_stages(schedule) ? 2 : 1; }

// The net has eight parts. Schedules with several stages per rank take micro-batches in groups of
// as many as there are ranks.
bool can_be(const std::string& schedule, int world_size, int micro_batches) {
  return !takes_several_stages(schedule) ||
         (stages_per_rank(schedule) * world_size <= 8 && micro_batches % world_size == 0);
}

void train(Communicator& comm, const std::string& schedule, const Settings& settings) {
  const int per_rank = stages_per_rank(schedule);
  const PipelinePlan plan =
      make_pipeline_plan(schedule, comm.world_size(), per_rank, settings.micro_batches);
  nn::Sequential whole = make_net();
  const Tensor sample = shining_quarters(8, 0).images;
  auto stages = nn::Sequential::split(
      make_net(), uniform_partition(profile_layers(whole, sample, comm), plan.num_stages).starts);
  Pipeline pipeline(stages, comm, plan, loss_of, {.measure = true});
  nn::SGD optimizer(pipeline.parameters(), kSgd), alone(whole.parameters(), kSgd);

  if (comm.rank() == 0) std::cout << pipeline.plan();
  for (int step = 0; step < settings.steps; ++step) {
    const LabelledImages batch =
        shining_quarters(8 * settings.micro_batches, static_cast<std::uint64_t>(step) + 1);
    optimizer.zero_grad();
    const Tensor loss = pipeline.train_step(batch.images, batch.labels);
    optimizer.step();
    alone.zero_grad();
    train_step_alone(whole, batch, settings.micro_batches);
    alone.step();
    if (comm.rank() == 0) std::cout << "  loss " << loss.item<float>() << '\n';
  }

  Tensor equal = ones({1}, {.dtype = DType::int32, .device = "cpu"});
  for (int s = comm.rank(); s < plan.num_stages; s += comm.world_size())
    if (!same_bits(stages[static_cast<std::size_t>(s)], whole)) equal = equal * 0;
  comm.all_reduce(equal, ReduceOp::min);
  const PipelineTimes times = pipeline.times();
  if (comm.rank() != 0) return;
  const double planned = pipeline_times(pipeline.plan(), {}).bubble;
  std::cout << "  bubble: " << std::round(1000 * planned) / 10 << " % if stages were equal, "
            << std::round(1000 * times.bubble) / 10 << " % measured\n  the stages "
            << (equal.item<int>() == 1 ? "have" : "do not have")
            << " the bits of the whole model trained alone\n";
  if (settings.json.empty()) return;
  std::ofstream file(settings.json);
  file << to_json(PipelineRun{pipeline.plan(), times}) << std::flush;
  RINGRAD_CHECK(file, DataError, Where::current(), "--json: the file must be writable; got ",
                settings.json);
}

int main(int argc, char** argv) {
  Settings settings;
  Job job("Trains a small ConvNet as a pipeline, by each schedule.", 4);
  std::vector<std::string> schedules = pipeline_schedule_names();
  schedules.insert(schedules.begin(), "all");
  job.options()
      .add_option("--schedule", settings.schedule, "how ranks share the work; default all in turn")
      ->check(CLI::IsMember(schedules));
  job.options()
      .add_option("--micro-batches", settings.micro_batches, "of 8 images each")
      ->check(option::micro_batches());
  job.options().add_option("--steps", settings.steps)->check(option::steps());
  job.options()
      .add_option("--json", settings.json, "write the last step's times to this file")
      ->check(option::writable_file());
  return job.run(argc, argv, [&](Communicator& comm) {
    for (const std::string& schedule : pipeline_schedule_names()) {
      const bool is_one_of_all =
          settings.schedule == "all" && can_be(schedule, comm.world_size(), settings.micro_batches);
      if (settings.schedule == schedule || is_one_of_all) train(comm, schedule, settings);
    }
  });
}
