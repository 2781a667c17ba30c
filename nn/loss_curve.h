// LossCurve: how losses fell, as a picture.
//
//     nn::LossCurve curve("Spirals");
//     curve.add("training", step, loss.item());     after each step
//     curve.add("test", step, test_loss);           after each epoch
//     curve.write("loss.svg");
//
//     2 |\                   Each name is a line of its own colour, in the order of the first
//       | \_                 points. The vertical axis contains 0. Steps need not be dense: lines
//     1 |   `-.___ test      may have different steps.
//       |  training`---
//     0 +------------- step

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ringrad/core/base/error.h"

namespace ringrad::nn {

class LossCurve {
 public:
  /// The most lines of a picture, which is how many colours readers can tell apart.
  static constexpr std::size_t kMostLines = 6;

  explicit LossCurve(std::string title = "Loss");

  /// Adds a point to a line. A loss that is not finite, or beyond 1e100, leaves a gap.
  ///
  /// Throws:  ValueError unless step >= 0 and it exceeds the step of the line's last point;
  ///          ValueError for more than kMostLines names
  void add(const std::string& line, std::int64_t step, double loss, Where where = Where::current());

  /// The picture as an SVG file. A line of more than 800 points is drawn as the means of groups of
  /// points that follow each other.
  ///
  /// Throws:  ValueError if there is no point, or all of them are gaps
  std::string svg(Where where = Where::current()) const;

  /// Writes svg() to a file as a whole or not at all (core/file/atomic_file.h).
  ///
  /// Throws:  as svg(); DataError if the file cannot be written
  void write(const std::filesystem::path& path, Where where = Where::current()) const;

 private:
  struct Point {
    std::int64_t step;
    double loss;
  };
  struct Line {
    std::string name;
    std::vector<Point> points;
  };

  std::string title_;
  std::vector<Line> lines_;
};

}  // namespace ringrad::nn
