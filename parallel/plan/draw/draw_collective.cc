#include "ringrad/parallel/plan/draw/draw_collective.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "ringrad/core/draw/svg.h"
#include "ringrad/parallel/plan/collective/require.h"

namespace ringrad {
namespace {

// Pixels.
constexpr double kMargin = 24, kCharacter = 7.2, kCell = 24, kRowGap = 26, kColumnGap = 14;
constexpr double kRowLabel = 22, kFrameTop = 54, kFrameGap = 36, kTop = 92, kLegend = 40;
constexpr double kWidest = 1120;

constexpr char kStyle[] = R"(
.title { font-size: 16px; font-weight: 600; }
.step { font-weight: 600; }
.cell { fill: #0969da; stroke: #9aa4af; }
.scratch { stroke-dasharray: 2 3; }
.done { fill: #2da44e; stroke: #1a7f37; }
.adds, .copies { fill: none; stroke-width: 1.8; }
.adds { stroke: #d55e00; }
.copies { stroke: #0072b2; }
.staged { stroke-dasharray: 5 3; }
.tip-adds { fill: #d55e00; }
.tip-copies { fill: #0072b2; }
.wrong { fill: none; stroke: #cf222e; stroke-width: 3; }
.fault { fill: #cf222e; font-weight: 600; }
@media (prefers-color-scheme: dark) {
  .cell { fill: #58a6ff; stroke: #59636e; }
  .done { stroke: #3fb950; }
  .adds { stroke: #ff9d4d; }
  .copies { stroke: #56b4e9; }
  .tip-adds { fill: #ff9d4d; }
  .tip-copies { fill: #56b4e9; }
  .wrong { stroke: #ff7b72; }
  .fault { fill: #ff7b72; }
}
)";

std::string point(double x, double y) { return svg_number(x) + " " + svg_number(y); }

// The smallest buffer in which every chunk has an element: the unit of elements_sent.
std::int64_t smallest_buffer(const CollectivePlan& plan) {
  return plan.collective == Collective::all_to_all ? plan.world_size : plan.num_chunks;
}

// "1.5", or "0 to 2" if ranks differ.
template <class Count>
std::string range_over_ranks(const CollectivePlan& plan, Count count) {
  double least = count(0), most = least;
  for (int rank = 1; rank < plan.world_size; ++rank) {
    least = std::min<double>(least, count(rank));
    most = std::max<double>(most, count(rank));
  }
  return least == most ? number_text(most) : number_text(least) + " to " + number_text(most);
}

class FilmStrip {
 public:
  FilmStrip(const CollectivePlan& plan, CollectiveFrames film)
      : plan_(plan), film_(std::move(film)), svg_(kStyle) {
    std::size_t longest = 3;
    for (const CollectiveFrame& frame : film_.frames)
      for (const auto& ranks : frame.ranks) longest = std::max(longest, ranks_label(ranks).size());
    cell_width_ = kCharacter * static_cast<double>(longest) + 10;
    width_ = kRowLabel + plan.world_size * (cell_width_ + kColumnGap);
    height_ = kFrameTop + plan.num_chunks * (kCell + kRowGap);
    per_row_ = std::max(1, static_cast<int>((kWidest + kFrameGap) / (width_ + kFrameGap)));
    per_row_ = std::min(per_row_, static_cast<int>(film_.frames.size()));
  }

  std::string draw() {
    const std::string title = collective_title(plan_), costs = collective_costs(plan_);
    svg_.text("ink title", kMargin, 34, title);
    svg_.text("dim", kMargin, 58, costs);
    const int num_frames = static_cast<int>(film_.frames.size());
    for (int i = 0; i < num_frames; ++i)
      draw_frame(i, kMargin + i % per_row_ * (width_ + kFrameGap), kTop + i / per_row_ * height_);
    const int num_rows = (num_frames + per_row_ - 1) / per_row_;
    double y = kTop + num_rows * height_ + 16;
    double widest = std::max(540.0, 9.5 * static_cast<double>(title.size()));
    widest = std::max(widest, kCharacter * static_cast<double>(costs.size()));
    widest = std::max(widest, per_row_ * (width_ + kFrameGap) - kFrameGap);
    if (film_.fault)
      for (const std::string& line : lines_of_fault(widest)) {
        svg_.text("fault", kMargin, y, line);
        y += 20;
      }
    draw_legend(y);
    return svg_.finish(widest + 2 * kMargin, y + kLegend);
  }

 private:
  double x_of(double left, int rank) const {
    return left + kRowLabel + rank * (cell_width_ + kColumnGap);
  }
  static double y_of(double top, int chunk) { return top + kFrameTop + chunk * (kCell + kRowGap); }

  void draw_frame(int number, double left, double top) {
    const CollectiveFrame& frame = film_.frames[number];
    svg_.text("ink step", left, top + 10,
              number == 0 ? "start" : "step " + std::to_string(frame.slot));
    for (int rank = 0; rank < plan_.world_size; ++rank)
      svg_.text("dim", x_of(left, rank) + cell_width_ / 2, top + 30,
                (plan_.world_size > 4 ? "" : "rank ") + std::to_string(rank), Anchor::middle);
    for (int chunk = 0; chunk < plan_.num_chunks; ++chunk) {
      svg_.text("dim", left + kRowLabel - 8, y_of(top, chunk) + kCell / 2 + 4,
                std::to_string(chunk), Anchor::end);
      for (int rank = 0; rank < plan_.world_size; ++rank)
        draw_cell(frame, rank, chunk, x_of(left, rank), y_of(top, chunk));
    }
    for (const FrameMessage& message : frame.messages) draw_message(message, left, top);
    const auto& fault = film_.fault;
    if (fault && fault->rank >= 0 && fault->chunk >= 0 && &frame == &film_.frames.back())
      svg_.rect("wrong", {x_of(left, fault->rank) - 2, y_of(top, fault->chunk) - 2, cell_width_ + 4,
                          kCell + 4});
  }

  void draw_cell(const CollectiveFrame& frame, int rank, int chunk, double x, double y) {
    const std::size_t at = static_cast<std::size_t>(rank) * plan_.num_chunks + chunk;
    const std::vector<int>&held = frame.ranks[at], &wanted = film_.promised[at];
    const bool is_done = !wanted.empty() && held == wanted;
    const double share = static_cast<double>(held.size()) / plan_.world_size;
    const std::string css =
        std::string("cell ") + (wanted.empty() ? "scratch " : "") + (is_done ? "done" : "");
    svg_.rect(css, {x, y, cell_width_, kCell}, {}, is_done ? 0.45 : 0.35 * share);
    if (!held.empty())
      svg_.text("ink", x + cell_width_ / 2, y + kCell / 2 + 4, ranks_label(held), Anchor::middle);
  }

  // From the middle of a cell to that of another in its row, as an arc in the gap. Messages from
  // further away end further out.
  void draw_message(const FrameMessage& message, double left, double top) {
    const auto& [from, to, chunk, adds, staged] = message;
    const double side = to > from ? -1 : 1;  // above, or below
    const double distance = std::abs(to - from);
    const double edge = y_of(top, chunk) + (side < 0 ? 0 : kCell);
    const double begin = x_of(left, from) + cell_width_ * (side < 0 ? 0.65 : 0.35);
    const double end =
        x_of(left, to) + cell_width_ * (side < 0 ? 0.35 : 0.65) + side * 4 * (distance - 1);
    const double apex = edge + side * (kRowGap / 2 - 2) * (1 - std::pow(0.5, distance)) * 1.9;
    const std::string kind = adds ? "adds" : "copies";
    svg_.path(kind + (staged ? " staged" : ""),
              "M" + point(begin, edge) + "C" + point(begin - side * 4, apex) + " " +
                  point(end + side * 4, apex) + " " + point(end, edge + side * 5),
              "chunk " + std::to_string(chunk) + ": rank " + std::to_string(from) + " to rank " +
                  std::to_string(to));
    draw_tip(kind, end, edge, side);
  }

  void draw_tip(const std::string& kind, double x, double y, double side) {
    svg_.path("tip-" + kind, "M" + point(x, y) + "l" + point(-4, side * 7) + "h8z");
  }

  void draw_legend(double y) {
    double x = kMargin + 4;
    const auto arrow = [&](const std::string& kind, bool staged, const std::string& text) {
      svg_.path(kind + (staged ? " staged" : ""), "M" + point(x, y - 9) + "v8");
      draw_tip(kind, x, y + 6, -1);
      svg_.text("dim", x + 12, y + 2, text);
      x += 30 + kCharacter * static_cast<double>(text.size());
    };
    arrow("adds", false, "is added");
    arrow("copies", false, "is copied");
    const bool has_staged =
        std::any_of(film_.frames.begin(), film_.frames.end(), [](const CollectiveFrame& frame) {
          return std::any_of(frame.messages.begin(), frame.messages.end(),
                             [](const FrameMessage& message) { return message.staged; });
        });
    if (has_staged) arrow("adds", true, "from a copy that was kept");
    svg_.rect("cell done", {x, y - 9, 16, 14}, {}, 0.45);
    svg_.text("dim", x + 22, y + 2, "done");
    const auto is_scratch = [](const std::vector<int>& wanted) { return wanted.empty(); };
    if (!std::any_of(film_.promised.begin(), film_.promised.end(), is_scratch)) return;
    svg_.rect("cell scratch", {x + 70, y - 9, 16, 14}, {}, 0.1);
    svg_.text("dim", x + 92, y + 2, "not asked for");
  }

  std::vector<std::string> lines_of_fault(double width) const {
    std::istringstream in(text_of("fails: ", *film_.fault));
    std::vector<std::string> lines(1);
    for (std::string word; in >> word;) {
      if (kCharacter * static_cast<double>(lines.back().size() + word.size()) > width)
        lines.emplace_back();
      lines.back() += (lines.back().empty() ? "" : " ") + word;
    }
    return lines;
  }

  const CollectivePlan& plan_;
  const CollectiveFrames film_;
  SvgDrawing svg_;
  double cell_width_ = 0, width_ = 0, height_ = 0;  // of a cell; of a frame
  int per_row_ = 1;
};

}  // namespace

CollectiveFrames frames_to_draw(const CollectivePlan& plan) {
  require(plan.world_size <= kMostDrawnRanks && plan.num_chunks <= kMostDrawnChunks,
          "collective drawing: there must be at most ", kMostDrawnRanks, " ranks and ",
          kMostDrawnChunks, " chunks; got ", plan.world_size, " and ", plan.num_chunks);
  std::set<int> slots;
  for (const Step& step : plan.steps) slots.insert(step.step);
  const std::int64_t num_cells =
      std::int64_t{plan.world_size} * plan.num_chunks * (std::ssize(slots) + 1);
  require(num_cells <= kMostDrawnCells,
          "collective drawing: ranks x chunks x time slots must be at most ", kMostDrawnCells,
          "; got ", num_cells);
  return collective_frames(plan);
}

std::string collective_title(const CollectivePlan& plan) {
  const auto count = [](int number, const char* what) {
    return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
  };
  return plan.algorithm + " " + name(plan.collective) + ": " + count(plan.world_size, "rank") +
         ", " + count(plan.num_chunks, "chunk") + ", " + count(num_steps(plan), "step");
}

std::string collective_costs(const CollectivePlan& plan) {
  const std::int64_t count = smallest_buffer(plan);
  const std::string sent = range_over_ranks(plan, [&](int rank) {
    return static_cast<double>(elements_sent(plan, rank, count)) / static_cast<double>(count);
  });
  const std::string messages =
      range_over_ranks(plan, [&](int rank) { return messages_sent(plan, rank); });
  return "each rank sends " + sent + " S in " + messages +
         (messages == "1" ? " message" : " messages") + " (S: the bytes of the buffer)";
}

std::string collective_svg(const CollectivePlan& plan) {
  return FilmStrip(plan, frames_to_draw(plan)).draw();
}

}  // namespace ringrad
