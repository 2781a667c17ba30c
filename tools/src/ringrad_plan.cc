// ringrad-plan: predicts the time of a training step on a number of devices, for every split into
// replicas and pipelines.
//
//     ringrad-plan --model resnet50 --devices 10000 --topology hosts:1250 --batch 80000
//     ringrad-plan --model convnet --devices 2 --topology this   devices: threads of this machine
//
// The model of the time is that of plan/predict/training_cost.h. The machine's figures, measured or
// assumed, are printed below the table.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ringrad/core/file/atomic_file.h"
#include "ringrad/core/untrusted/options.h"
#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"
#include "ringrad/parallel/train/pipeline/training_machine.h"

namespace ringrad {
namespace {

using Json = nlohmann::ordered_json;

struct Settings {
  TrainingTask task;
  int devices = 0;
  std::string topology = "this";
  std::int64_t batch = 0;
  int micro_batches = 8;
  std::string schedule = "all";
  std::uint64_t memory_bytes = 0;
  std::string optimizer = "momentum";
  double efficiency = 0.3;
  std::string json;
};

nn::ImageTask images_of(const std::string& model) {
  if (model == "resnet18" || model == "resnet50")
    return {.channels = 3, .height = 224, .width = 224, .classes = 1000};
  if (model == "resnet20") return {.channels = 3, .height = 32, .width = 32};
  return {};
}

// --- Output ------------------------------------------------------------------------------------

std::string in_seconds(double seconds) {
  char text[32];
  if (seconds >= 1)
    std::snprintf(text, sizeof text, "%.3f s", seconds);
  else if (seconds >= 1e-3)
    std::snprintf(text, sizeof text, "%.3f ms", seconds * 1e3);
  else
    std::snprintf(text, sizeof text, "%.1f us", seconds * 1e6);
  return text;
}

// What is known of the errors; docs/prediction.md has the tables.
std::string validation(const Settings& settings) {
  return settings.topology == "this" ? "Not validated on this machine: on one with 2 processors, "
                                       "measured steps were off by "
                                       "up to 41 % (docs/prediction.md)."
                                     : "Not validated: published all-reduces are off by 25 to 850 "
                                       "% over all sizes, by 11 to "
                                       "49 % from 16 MiB (docs/prediction.md).";
}

double samples_per_second(const Settings& settings, const TrainingSplit& split) {
  return static_cast<double>(settings.batch) / split.prediction.step_s;
}

std::string shape_of(const TrainingSplit& split) {
  return std::to_string(split.data) + " x " + std::to_string(split.pipeline);
}

void print_split(const Settings& settings, const TrainingSplit& split, bool is_best) {
  const TrainingPrediction& p = split.prediction;
  const std::string micro_batches =
      std::to_string(split.micro_batches) + " of " + std::to_string(split.samples);
  if (!split.refused.empty()) {
    std::printf("%12s  %-12s cannot be: %s\n", shape_of(split).c_str(), split.schedule.c_str(),
                split.refused.c_str());
    return;
  }
  std::printf("%12s  %-12s %12s %12s %12.0f %6.1f %% %12s %6.1f %% %9.2f  %s%s\n",
              shape_of(split).c_str(), split.schedule.c_str(), micro_batches.c_str(),
              in_seconds(p.step_s).c_str(), samples_per_second(settings, split), p.bubble * 100,
              in_seconds(p.communication_s).c_str(), p.overlap() * 100,
              static_cast<double>(p.most_memory_bytes()) / 1e9, p.bottleneck.c_str(),
              is_best ? "   <- best" : "");
}

void print(const Settings& settings, const TrainingMachine& machine,
           const std::vector<TrainingSplit>& splits, int best) {
  const nn::ImageTask& images = settings.task.images;
  std::printf("%s, images of %lld x %lld x %lld, batches of %lld; %d devices of %s\n\n",
              settings.task.model.c_str(), static_cast<long long>(images.channels),
              static_cast<long long>(images.height), static_cast<long long>(images.width),
              static_cast<long long>(settings.batch), settings.devices, settings.topology.c_str());
  std::printf("%12s  %-12s %12s %12s %12s %8s %12s %8s %9s  %s\n", "data x pipe", "schedule",
              "micro-batch", "step", "samples/s", "bubble", "reductions", "hidden", "memory GB",
              "bottleneck");
  for (std::size_t i = 0; i < splits.size(); ++i)
    print_split(settings, splits[i], static_cast<int>(i) == best);
  std::printf("\nAll of these are predictions. %s\nWhat they are made of:\n",
              validation(settings).c_str());
  for (const std::string& what : machine.measured) std::printf("  measured  %s\n", what.c_str());
  for (const std::string& what : machine.assumed) std::printf("  assumed   %s\n", what.c_str());
}

Json to_json(const TrainingSplit& split, const Settings& settings) {
  Json row = {{"data", split.data}, {"pipeline", split.pipeline}};
  if (!split.schedule.empty()) row["schedule"] = split.schedule;
  row["micro_batches"] = split.micro_batches;
  row["samples"] = split.samples;
  if (!split.refused.empty()) {
    row["refused"] = split.refused;
    return row;
  }
  const TrainingPrediction& p = split.prediction;
  row["starts"] = split.starts;
  row["step_s"] = p.step_s;
  row["samples_per_s"] = samples_per_second(settings, split);
  row["compute_s"] = p.compute_s;
  row["bubble"] = p.bubble;
  row["communication_s"] = p.communication_s;
  row["exposed_s"] = p.exposed_s;
  row["optimizer_s"] = p.optimizer_s;
  row["memory_bytes"] = p.memory_bytes;
  row["all_reduce"] = p.all_reduce;
  row["bottleneck"] = p.bottleneck;
  return row;
}

Json to_json(const Settings& settings, const TrainingMachine& machine,
             const std::vector<TrainingSplit>& splits, int best) {
  Json rows = Json::array();
  for (const TrainingSplit& split : splits) rows.push_back(to_json(split, settings));
  const CostModel& links = machine.question.common.links;
  const std::optional<LinkCost>& copies = machine.question.common.copies;
  return {{"model", settings.task.model},
          {"devices", settings.devices},
          {"topology", settings.topology},
          {"batch", settings.batch},
          {"alpha_s", links.within_host.alpha_s},
          {"beta_s_per_byte", links.within_host.beta_s_per_byte},
          {"gamma_s_per_byte", links.gamma_s_per_byte},
          {"copy_alpha_s", copies ? Json(copies->alpha_s) : Json()},
          {"copy_beta_s_per_byte", copies ? Json(copies->beta_s_per_byte) : Json()},
          {"contention", machine.question.common.contention},
          {"splits", rows},
          {"best", best < 0 ? Json() : Json(best)},
          {"validation", validation(settings)},
          {"measured", machine.measured},
          {"assumed", machine.assumed}};
}

// --- The program -------------------------------------------------------------------------------

void add_options(CLI::App& app, Settings& settings) {
  std::vector<std::string> schedules = pipeline_schedule_names();
  schedules.emplace_back("all");
  app.add_option("--model", settings.task.model, "What is trained")
      ->required()
      ->check(CLI::IsMember(nn::model_names()));
  app.add_option("--devices", settings.devices, "How many devices")
      ->required()
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--topology", settings.topology,
                 "nvlink8, pcie4, two_hosts, hosts:N of 8 devices each; or this: threads of this "
                 "machine, which is measured")
      ->capture_default_str();
  app.add_option("--batch", settings.batch,
                 "Samples of a step, of all replicas together; 0: 32 per device")
      ->check(option::whole(0, 1LL << 40))
      ->capture_default_str();
  app.add_option("--micro-batches", settings.micro_batches,
                 "Micro-batches of a pipeline's share of the batch")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--schedule", settings.schedule, "Pipeline schedule, or all")
      ->check(CLI::IsMember(schedules))
      ->capture_default_str();
  app.add_option("--memory", settings.memory_bytes,
                 "Memory of each device, such as 80GB; 0: the topology's, or no limit")
      ->transform(CLI::AsSizeValue(true))
      ->capture_default_str();
  app.add_option("--optimizer", settings.optimizer,
                 "Optimizer whose state counts towards the memory")
      ->check(CLI::IsMember({"sgd", "momentum", "adam"}))
      ->capture_default_str();
  app.add_option("--efficiency", settings.efficiency,
                 "The part of a device's peak that layers reach; not for this machine")
      ->check(option::number(0.001, 1))
      ->capture_default_str();
  app.add_option("--json", settings.json, "A file for all of it")->check(option::writable_file());
}

int run(Settings settings) {
  settings.task.images = images_of(settings.task.model);
  settings.task.state_per_parameter = settings.optimizer == "adam"       ? 2
                                      : settings.optimizer == "momentum" ? 1
                                                                         : 0;
  if (settings.batch == 0) settings.batch = 32LL * settings.devices;
  TrainingMachine machine = settings.topology == "this"
                                ? this_machine(settings.task, settings.devices, settings.batch)
                                : assumed_machine(settings.task, settings.topology,
                                                  settings.devices, settings.efficiency);
  SplitQuestion& question = machine.question;
  question.devices = settings.devices;
  question.batch = settings.batch;
  question.micro_batches = settings.micro_batches;
  question.schedules =
      settings.schedule == "all" ? pipeline_schedule_names() : std::vector{settings.schedule};
  if (settings.memory_bytes > 0)
    question.memory_limit_bytes = static_cast<std::int64_t>(settings.memory_bytes);
  const std::vector<TrainingSplit> splits = predict_splits(question);
  const int best = fastest_split(splits);
  print(settings, machine, splits, best);
  if (!settings.json.empty())
    write_file("--json", settings.json, to_json(settings, machine, splits, best).dump(2) + '\n');
  if (best < 0) std::printf("\nNo split can be.\n");
  return best < 0 ? 1 : 0;
}

}  // namespace
}  // namespace ringrad

// Bad arguments exit with 2, whether the parser or the library rejects them.
int main(int argc, char** argv) {
  ringrad::Settings settings;
  CLI::App app(
      "Predicts a step of training for every split of devices into replicas and pipelines.");
  ringrad::add_options(app, settings);
  try {
    if (const auto exit_code = ringrad::parse_options(app, argc, argv)) return *exit_code;
    return ringrad::run(std::move(settings));
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "ringrad-plan: %s\n", error.what());
    return 2;
  } catch (const ringrad::ValueError& error) {
    std::fprintf(stderr, "ringrad-plan: %s\n", error.what());
    return 2;
  } catch (const ringrad::DataError& error) {  // of the file for --json
    std::fprintf(stderr, "ringrad-plan: %s\n", std::string(error.message()).c_str());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ringrad-plan: %s\n", error.what());
    return 1;
  }
}
