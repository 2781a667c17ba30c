#include "ringrad/nn/loss_curve.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "ringrad/core/draw/svg.h"
#include "ringrad/core/file/atomic_file.h"

namespace ringrad::nn {
namespace {

constexpr std::size_t kMostPoints = 800;
constexpr double kLargest = 1e100;

// Pixels.
constexpr double kLeft = 64, kTop = 72, kChart = 640, kHeight = 320, kRight = 24, kBottom = 52;
constexpr double kTitle_y = 30, kLegend_y = 54, kSwatch = 18, kCharacter = 7.5;

// Colours that also colour-blind readers tell apart (Okabe and Ito 2008).
constexpr char kStyle[] = R"(
.title { font-size: 16px; font-weight: 600; }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.line0 { stroke: #0072b2; }
.line1 { stroke: #d55e00; }
.line2 { stroke: #009e73; }
.line3 { stroke: #cc79a7; }
.line4 { stroke: #e69f00; }
.line5 { stroke: #56b4e9; }
)";

bool is_gap(double loss) { return !(std::abs(loss) <= kLargest); }

// From values to pixels: [least, most] becomes [from, to].
struct Axis {
  double least, most, from, to;

  double operator()(double value) const {
    return from + (to - from) * (value - least) / (most - least);
  }
  std::vector<double> ticks() const {
    const double tick = axis_tick(most - least);
    std::vector<double> values;
    for (double i = std::ceil(least / tick) + 0.0; i * tick <= most + tick * 1e-9; ++i)
      values.push_back(i * tick);
    return values;
  }
};

// An axis for values up to `most`; for all zeros as if there were a 1.
Axis axis(double least, double most, double from, double to) {
  return {least, most - least > 1e-100 ? most : least + 1, from, to};
}

// The means of steps and losses of groups of points; gaps count only in a group without others.
template <class Point>
std::vector<std::pair<double, double>> thinned(const std::vector<Point>& points) {
  const std::size_t size = (points.size() + kMostPoints - 1) / kMostPoints;
  std::vector<std::pair<double, double>> means;
  for (std::size_t i = 0; i < points.size(); i += size) {
    const auto group = std::span(points).subspan(i, std::min(size, points.size() - i));
    double step = 0, loss = 0, count = 0;
    for (const Point& point : group) {
      if (is_gap(point.loss)) continue;
      ++count;
      step += (static_cast<double>(point.step) - step) / count;
      loss += (point.loss - loss) / count;
    }
    means.emplace_back(step, count > 0 ? loss : NAN);
  }
  return means;
}

// A path through the points; one between two gaps is a dot.
template <class Point>
std::string path_of(const std::vector<Point>& points, const Axis& x, const Axis& y) {
  std::string path;
  bool is_drawing = false;
  for (const auto& [step, loss] : thinned(points)) {
    if (!is_gap(loss)) {
      const std::string place = svg_number(x(step)) + ' ' + svg_number(y(loss));
      path += is_drawing ? 'L' + place : 'M' + place + "h0";
    }
    is_drawing = !is_gap(loss);
  }
  return path;
}

void add_axes(SvgDrawing& svg, const Axis& x, const Axis& y) {
  for (const double value : y.ticks()) {
    svg.line("rule", kLeft, y(value), kLeft + kChart, y(value));
    svg.text("dim", kLeft - 8, y(value) + 4, number_text(value), Anchor::end);
  }
  const double bottom = kTop + kHeight;
  for (const double value : x.ticks()) {
    svg.line("rule", x(value), bottom, x(value), bottom + 5);
    svg.text("dim", x(value), bottom + 19, number_text(value), Anchor::middle);
  }
  svg.text("dim", kLeft + kChart / 2, bottom + 38, "step", Anchor::middle);
}

}  // namespace

LossCurve::LossCurve(std::string title) : title_(std::move(title)) {}

void LossCurve::add(const std::string& line, std::int64_t step, double loss, Where where) {
  auto found = std::ranges::find(lines_, line, &Line::name);
  RINGRAD_CHECK(found != lines_.end() || lines_.size() < kMostLines, ValueError, where,
                "LossCurve: there must be at most ", kMostLines, " lines; got ", line,
                " as one more");
  const std::int64_t last = found == lines_.end() ? -1 : found->points.back().step;
  RINGRAD_CHECK(step > last, ValueError, where, "LossCurve: the next step of ", line,
                " must exceed ", last, "; got ", step);
  if (found == lines_.end()) found = lines_.insert(found, {line, {}});
  found->points.push_back({step, loss});
}

std::string LossCurve::svg(Where where) const {
  double most_step = 0, least = 0, most = 0;
  bool is_empty = true;
  for (const Line& line : lines_)
    for (const Point& point : line.points) {
      most_step = std::max(most_step, static_cast<double>(point.step));
      if (is_gap(point.loss)) continue;
      is_empty = false;
      least = std::min(least, point.loss);
      most = std::max(most, point.loss);
    }
  RINGRAD_CHECK(!is_empty, ValueError, where,
                "LossCurve: there must be a finite loss; got none in ", lines_.size(), " lines");

  SvgDrawing svg(kStyle);
  svg.text("ink title", kLeft, kTitle_y, title_);
  const Axis x = axis(0, most_step, kLeft, kLeft + kChart);
  const Axis y = axis(least, most, kTop + kHeight, kTop);
  add_axes(svg, x, y);
  double legend_x = kLeft;
  for (std::size_t k = 0; k < lines_.size(); ++k) {
    const std::string css = concat("line line", k);
    svg.path(css, path_of(lines_[k].points, x, y), lines_[k].name);
    svg.line(css, legend_x, kLegend_y - 4, legend_x + kSwatch, kLegend_y - 4);
    svg.text("ink", legend_x + kSwatch + 6, kLegend_y, lines_[k].name);
    legend_x += kSwatch + 26 + kCharacter * static_cast<double>(lines_[k].name.size());
  }
  return svg.finish(std::max(kLeft + kChart + kRight, legend_x), kTop + kHeight + kBottom);
}

void LossCurve::write(const std::filesystem::path& path, Where where) const {
  write_file("LossCurve", path, svg(where), where);
}

}  // namespace ringrad::nn
