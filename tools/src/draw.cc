// draw: pictures of plans.
//
//     draw ring --ranks 4                                     a collective, as a page with steps
//     draw ring --ranks 4 --format svg                        all its steps in one picture
//     draw binomial --collective broadcast --ranks 8
//     draw pipeline --plan 1f1b --stages 4 --micro-batches 8  a pipeline's schedule
//     draw pipeline --measured run.json                       measured times, below expected ones
//     draw ring --ranks 4 --format json                       the plan itself, as a starting point
//     draw plan.json                                          yours (plan_json.h, pipeline_json.h)

#include <CLI/CLI.hpp>
#include <cctype>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ringrad/core/file/atomic_file.h"
#include "ringrad/core/untrusted/options.h"
#include "ringrad/parallel/plan/collective/algorithms.h"
#include "ringrad/parallel/plan/draw/draw_collective.h"
#include "ringrad/parallel/plan/draw/draw_pipeline.h"
#include "ringrad/parallel/plan/file/plan_file.h"
#include "ringrad/parallel/plan/file/plan_json.h"
#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"
#include "ringrad/parallel/plan/predict/pipeline_cost.h"

namespace ringrad {
namespace {

constexpr int kMostStages = 64, kMostMicroBatches = 512;

struct Settings {
  std::string what;
  std::string output, format;

  // of a collective
  std::string collective = name(Collective::all_reduce);
  int ranks = 4;
  PlanOptions options;

  // of a pipeline
  std::string schedule = "1f1b", measured;
  int stages = 4, stages_per_device = 1, micro_batches = 8;
  double forward = 1, backward = 2, message = 0;
};

struct Picture {
  std::string name;  // of the file, without its extension
  std::string format;
  std::string text;
  std::optional<std::string> fault = {};  // of the plan
};

Picture draw(const CollectivePlan& plan, const Settings& settings) {
  Picture picture{
      .name = plan.algorithm + "_" + name(plan.collective) + "_" + std::to_string(plan.world_size),
      .format = settings.format.empty() ? "html" : settings.format,
      .text = {}};
  picture.text = picture.format == "svg"    ? collective_svg(plan)
                 : picture.format == "json" ? to_json(plan)
                                            : collective_html(plan);
  picture.fault = fault_of(plan);
  return picture;
}

Picture pipeline_picture(const PipelinePlan& plan, const Settings& settings, std::string svg) {
  if (!settings.format.empty() && settings.format != "svg")
    throw std::invalid_argument("draw: a pipeline's format must be svg; got " + settings.format);
  return {"pipeline_" + plan.schedule + "_" + std::to_string(plan.num_stages), "svg",
          std::move(svg)};
}

// The times of a run's plan if every action of a stage took its measured average. A run may have
// been stored without its messages.
PipelineTimes planned_times(const PipelineRun& run) {
  if (const auto fault = fault_of(run.plan))
    throw std::invalid_argument("draw: the plan of a run must be proved; got " + *fault);
  const bool is_complete = has_messages(run.plan);
  const PipelinePlan plan = is_complete ? run.plan : with_messages(run.plan);
  PipelineTimes times = pipeline_times(plan, mean_costs(run.plan, run.times));
  if (is_complete) return times;
  std::vector<std::vector<PipelineTimes::Span>> spans(plan.actions.size());
  for (std::size_t device = 0; device < plan.actions.size(); ++device)
    for (std::size_t i = 0; i < plan.actions[device].size(); ++i)
      if (is_compute(plan.actions[device][i].op)) spans[device].push_back(times.spans[device][i]);
  return times_of_spans(run.plan, std::move(spans));
}

Picture draw(const PipelineRun& run, const Settings& settings) {
  return pipeline_picture(run.plan, settings,
                          pipeline_svg(run.plan, planned_times(run), &run.times));
}

Picture draw_measured(const Settings& settings) {
  const PlanFile file = read_plan_file(settings.measured);
  const auto* run = std::get_if<PipelineRun>(&file);
  if (!run)
    throw std::invalid_argument("draw: --measured must name the run of a pipeline; got " +
                                settings.measured);
  return draw(*run, settings);
}

Picture draw_pipeline(const Settings& settings) {
  if (!settings.measured.empty()) return draw_measured(settings);
  if (settings.stages % settings.stages_per_device != 0)
    throw std::invalid_argument("draw: --stages must be a multiple of --stages-per-device; got " +
                                std::to_string(settings.stages) + " and " +
                                std::to_string(settings.stages_per_device));
  const PipelinePlan plan = with_messages(
      make_pipeline_plan(settings.schedule, settings.stages / settings.stages_per_device,
                         settings.stages_per_device, settings.micro_batches));
  const PipelineCosts costs{.forward_s = {settings.forward},
                            .backward_input_s = {settings.backward / 2},
                            .backward_weight_s = {settings.backward / 2},
                            .message_s = {settings.message}};
  return pipeline_picture(
      plan, settings, pipeline_svg(plan, pipeline_times(plan, costs), nullptr, {.unit = "units"}));
}

Picture draw_file(const std::string& path, const Settings& settings) {
  return std::visit([&](const auto& plan) { return draw(plan, settings); }, read_plan_file(path));
}

Collective collective_named(const std::string& text) {
  for (const Collective known : kCollectives)
    if (text == name(known)) return known;
  throw std::invalid_argument("draw: there is no collective '" + text + "'");
}

Picture draw(const Settings& settings) {
  if (settings.what == "pipeline") return draw_pipeline(settings);
  if (settings.what.ends_with(".json")) return draw_file(settings.what, settings);
  return draw(make_plan(collective_named(settings.collective), settings.what, settings.ranks,
                        settings.options),
              settings);
}

// A plan's own name may contain anything.
std::string file_name(const Picture& picture) {
  std::string result = picture.name;
  for (char& c : result)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-') c = '_';
  return result + "." + picture.format;
}

void write(const std::string& path, const std::string& text) {
  try {
    write_file("draw", path, text);
  } catch (const DataError& error) {
    throw std::invalid_argument("draw: the file must be writable; got " + path + ", " +
                                std::string(error.message()));
  }
  std::fprintf(stderr, "draw: wrote %s\n", path.c_str());
}

std::string all_algorithms() {
  std::string text;
  for (const Collective collective : kCollectives) {
    text += std::string("\n  ") + name(collective) + ":";
    for (const std::string& algorithm : algorithm_names(collective)) text += " " + algorithm;
  }
  return text;
}

void add_collective_options(CLI::App& app, Settings& settings) {
  const char* const group = "Options for collectives";
  std::vector<std::string> collectives;
  for (const Collective known : kCollectives) collectives.push_back(name(known));
  const auto add = [&](const char* option, auto& value, const char* text) {
    return app.add_option(option, value, text)->group(group)->capture_default_str();
  };
  add("--collective", settings.collective, "What ranks do")->check(CLI::IsMember(collectives));
  add("--ranks", settings.ranks, "Number of ranks")->check(CLI::Range(1, kMostDrawnRanks));
  add("--segments", settings.options.segments, "Segments per chunk")
      ->check(CLI::Range(1, kMostDrawnChunks));
  add("--root", settings.options.root, "Root rank (broadcast and reduce only)");
  add("--ranks-per-host", settings.options.ranks_per_host,
      "Ranks per host (hierarchical and leaders only)")
      ->check(CLI::Range(1, kMostDrawnRanks));
}

void add_pipeline_options(CLI::App& app, Settings& settings) {
  const char* const group = "Options for pipelines";
  std::vector<CLI::Option*> all;
  const auto add = [&](const char* option, auto& value, const char* text) {
    return all.emplace_back(
        app.add_option(option, value, text)->group(group)->capture_default_str());
  };
  const CLI::Validator a_time = option::number(0, 1e9);
  add("--plan", settings.schedule, "The schedule")->check(CLI::IsMember(pipeline_schedule_names()));
  add("--stages", settings.stages, "Stages, on all devices together")
      ->check(CLI::Range(1, kMostStages));
  add("--stages-per-device", settings.stages_per_device, "Stages per device (interleaved only)")
      ->check(CLI::Range(1, kMostStages));
  add("--micro-batches", settings.micro_batches, "Number of micro-batches")
      ->check(CLI::Range(1, kMostMicroBatches));
  add("--forward", settings.forward, "Time of a stage's forward pass")->check(a_time);
  add("--backward", settings.backward, "Time of its backward pass")->check(a_time);
  add("--message", settings.message, "Time of a message")->check(a_time);
  CLI::Option* measured = app.add_option("--measured", settings.measured,
                                         "A run to draw, with its plan: pipeline_json.h")
                              ->group(group);
  for (CLI::Option* option : all) measured->excludes(option);
}

int run(int argc, char** argv) {
  Settings settings;
  CLI::App app("Pictures of plans: collectives as pages to step through, pipelines as SVG.");
  app.footer("Algorithms:" + all_algorithms());
  app.add_option("what", settings.what, "An algorithm, 'pipeline', or a plan's file, *.json")
      ->required();
  app.add_option("-o,--output", settings.output, "The file; by default named like the plan");
  app.add_option("--format", settings.format,
                 "svg, or of a collective html, which is the default, or json")
      ->check(CLI::IsMember({"html", "svg", "json"}));
  add_collective_options(app, settings);
  add_pipeline_options(app, settings);
  if (const auto exit_code = parse_options(app, argc, argv)) return *exit_code;
  const Picture picture = draw(settings);
  write(settings.output.empty() ? file_name(picture) : settings.output, picture.text);
  if (picture.fault) std::fprintf(stderr, "draw: the plan fails: %s\n", picture.fault->c_str());
  return 0;
}

}  // namespace
}  // namespace ringrad

int main(int argc, char** argv) {
  try {
    return ringrad::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
