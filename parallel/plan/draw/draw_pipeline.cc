#include "ringrad/parallel/plan/draw/draw_pipeline.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "ringrad/core/draw/svg.h"
#include "ringrad/parallel/plan/collective/require.h"

namespace ringrad {
namespace {

// Pixels.
constexpr double kLeft = 84, kChart = 900, kRight = 28, kRow = 26, kBarGap = 4, kLetter = 7.5;
constexpr double kTitle_y = 30, kLegend_y = 58, kPanels_y = 88, kPanelTitle = 24, kPanelGap = 22;

// Colours that also colour-blind readers tell apart (Okabe and Ito 2008), with dark text on all.
struct Colour {
  int red, green, blue;
};
constexpr Colour kColours[] = {{86, 180, 233}, {230, 159, 0}, {232, 116, 59}, {0, 158, 115}};
constexpr const char* kClasses[] = {"forward", "backward", "input", "weight"};
constexpr const char* kLegends[] = {"forward", "backward", "backward of the input",
                                    "backward of the weights"};

constexpr char kPipelineStyle[] = R"(
.title { font-size: 16px; font-weight: 600; }
.panel { font-weight: 600; }
.number { font-size: 11px; fill: #111111; }
.box { stroke: #ffffff; stroke-width: 0.8; }
.bubble { fill: url(#hatching); }
.between { fill: #f3f4f6; }
.hatch { stroke: #c9cfd6; stroke-width: 1; }
@media (prefers-color-scheme: dark) {
  .box { stroke: #0d1117; }
  .between { fill: #1c2128; }
  .hatch { stroke: #3d444d; }
}
)";

constexpr char kHatching[] = R"svg(
<pattern id="hatching" width="6" height="6" patternUnits="userSpaceOnUse"
 patternTransform="rotate(45)">
<rect class="between" width="6" height="6"/><path class="hatch" d="M3 0V6"/></pattern>
)svg";

// Later stages of a device are lighter.
std::string colours(int stages_per_device, const std::set<PipelineOp>& ops) {
  std::string css;
  for (const PipelineOp op : ops)
    for (int k = 0; k < stages_per_device; ++k) {
      const double white = stages_per_device == 1 ? 0 : 0.6 * k / (stages_per_device - 1);
      const auto [red, green, blue] = kColours[static_cast<int>(op)];
      const auto mixed = [&](int part) { return static_cast<int>(part + white * (255 - part)); };
      char line[64];
      std::snprintf(line, sizeof line, ".%s%d { fill: #%02x%02x%02x; }\n",
                    kClasses[static_cast<int>(op)], k, mixed(red), mixed(green), mixed(blue));
      css += line;
    }
  return css;
}

std::set<PipelineOp> ops_of(const PipelinePlan& plan) {
  std::set<PipelineOp> ops;
  for (const auto& actions : plan.actions)
    for (const PipelineAction& action : actions)
      if (is_compute(action.op)) ops.insert(action.op);
  return ops;
}

// What times are multiplied by to be numbers in a unit.
struct Unit {
  double per_second = 1;
  std::string name;
};

Unit unit_for(double total_s, const std::string& name) {
  if (name != "s" || total_s >= 1) return {1, name};
  return total_s >= 1e-3 ? Unit{1e3, "ms"} : Unit{1e6, "us"};
}

class Picture {
 public:
  Picture(const PipelinePlan& plan, double total_s, const PipelineDrawingOptions& drawing)
      : plan_(plan),
        stages_per_device_((plan.num_stages + plan.num_devices - 1) / plan.num_devices),
        ops_(ops_of(plan)),
        total_s_(total_s > 0 ? total_s : 1),
        unit_(unit_for(total_s_, drawing.unit)),
        svg_(kPipelineStyle + colours(stages_per_device_, ops_), kHatching) {
    svg_.text("ink title", kLeft, kTitle_y, drawing.title.empty() ? title() : drawing.title);
    add_legend();
  }

  void add_panel(const std::string& name, const PipelineTimes& times) {
    char bubble[32];
    std::snprintf(bubble, sizeof bubble, "%.1f %%", 100 * times.bubble);
    svg_.text("ink panel", kLeft, y_ + 12,
              name + ": " + in_unit(times.total_s) + ", bubble " + bubble);
    y_ += kPanelTitle;
    for (std::size_t device = 0; device < plan_.actions.size(); ++device) {
      svg_.text("ink", kLeft - 10, y_ + kRow / 2 + 4, "device " + std::to_string(device),
                Anchor::end);
      svg_.rect("bubble", {kLeft, y_, x_of(times.total_s) - kLeft, kRow});
      for (std::size_t i = 0; i < plan_.actions[device].size(); ++i)
        if (is_compute(plan_.actions[device][i].op))
          add_box(plan_.actions[device][i], times.spans[device][i]);
      y_ += kRow + kBarGap;
    }
    y_ += kPanelGap;
  }

  std::string finish() {
    y_ += 4 - kPanelGap;
    svg_.line("rule", kLeft, y_, kLeft + kChart, y_);
    const double total = total_s_ * unit_.per_second, tick = axis_tick(total);
    for (int i = 0; i * tick <= total * (1 + 1e-9); ++i) {
      const double x = x_of(i * tick / unit_.per_second);
      svg_.line("rule", x, y_, x, y_ + 5);
      svg_.text("dim", x, y_ + 19, number_text(i * tick), Anchor::middle);
    }
    svg_.text("dim", kLeft + kChart / 2, y_ + 38, "time (" + unit_.name + ")", Anchor::middle);
    return svg_.finish(kLeft + kChart + kRight, y_ + 52);
  }

 private:
  double x_of(double s) const { return kLeft + kChart * s / total_s_; }
  std::string in_unit(double s) const {
    return number_text(s * unit_.per_second) + " " + unit_.name;
  }

  std::string title() const {
    return plan_.schedule + ": " + std::to_string(plan_.num_stages) + " stages on " +
           std::to_string(plan_.num_devices) + " devices, " +
           std::to_string(plan_.num_micro_batches) + " micro-batches";
  }

  std::string class_of(PipelineOp op, int k) const {
    return kClasses[static_cast<int>(op)] + std::to_string(k);
  }

  void add_legend() {
    constexpr double kSwatch = 14;
    double x = kLeft;
    const auto say = [&](const std::string& text) {
      svg_.text("ink", x + 4, kLegend_y, text);
      x += 28 + kLetter * static_cast<double>(text.size());
    };
    for (const PipelineOp op : ops_) {
      for (int k = 0; k < stages_per_device_; ++k, x += kSwatch + 2)
        svg_.rect("legend " + class_of(op, k), {x, kLegend_y - 11, kSwatch, kSwatch});
      say(kLegends[static_cast<int>(op)]);
    }
    svg_.rect("bubble", {x, kLegend_y - 11, kSwatch, kSwatch});
    x += kSwatch + 2;
    say("bubble");
    if (stages_per_device_ > 1) svg_.text("dim", x, kLegend_y, "lighter: a device's later stages");
  }

  void add_box(const PipelineAction& action, const PipelineTimes::Span& span) {
    const auto& [op, stage, micro_batch] = action;
    const SvgBox box{x_of(span.start_s), y_, x_of(span.end_s) - x_of(span.start_s), kRow};
    svg_.rect("box " + class_of(op, stage / plan_.num_devices), box,
              std::string(name(op)) + " stage " + std::to_string(stage) + " micro-batch " +
                  std::to_string(micro_batch) + ": " + in_unit(span.start_s) + " to " +
                  in_unit(span.end_s));
    const std::string number = std::to_string(micro_batch);
    if (box.width >= kLetter * static_cast<double>(number.size()) + 2)
      svg_.text("number", box.x + box.width / 2, box.y + kRow / 2 + 4, number, Anchor::middle);
  }

  const PipelinePlan& plan_;
  const int stages_per_device_;
  const std::set<PipelineOp> ops_;
  const double total_s_;
  const Unit unit_;
  SvgDrawing svg_;
  double y_ = kPanels_y;
};

void check_stages(const PipelinePlan& plan) {
  require(
      plan.num_devices >= 1 && plan.actions.size() == static_cast<std::size_t>(plan.num_devices),
      "pipeline drawing: there must be a list of actions per device; got ", plan.actions.size(),
      " and ", plan.num_devices, " devices");
  for (const auto& actions : plan.actions)
    for (const PipelineAction& action : actions)
      require(action.stage >= 0 && action.stage < plan.num_stages,
              "pipeline drawing: stages must be in [0, ", plan.num_stages, "); got ", action.stage);
}

}  // namespace

std::string pipeline_svg(const PipelinePlan& plan, const PipelineTimes& planned,
                         const PipelineTimes* measured, const PipelineDrawingOptions& drawing) {
  check_stages(plan);
  const PipelineTimes plans = times_of_spans(plan, planned.spans);
  const PipelineTimes runs = measured ? times_of_spans(plan, measured->spans) : PipelineTimes{};
  Picture picture(plan, std::max(plans.total_s, runs.total_s), drawing);
  picture.add_panel("planned", plans);
  if (measured) picture.add_panel("measured", runs);
  return picture.finish();
}

}  // namespace ringrad
