// SvgDrawing: text of an SVG file, shape by shape: drawings of plans, and curves.
//
//     SvgDrawing svg(kStyle);
//     svg.rect("box", {10, 20, 30, 40}, "what a reader sees who points at it");
//     svg.text("label", 25, 45, "3", Anchor::middle);
//     std::string file = svg.finish(640, 480);
//
// Styles are defined once, as CSS by class. The page has a painted background, so that a drawing is
// readable wherever it is shown, and is dark for readers who prefer dark pages.

#pragma once

#include <sstream>
#include <string>

namespace ringrad {

struct SvgBox {
  double x = 0, y = 0, width = 0, height = 0;
};

enum class Anchor { start, middle, end };

class SvgDrawing {
 public:
  /// `style` is CSS added to that of the page and of the classes
  ///
  ///     page ink dim      the paper, and text on it
  ///     rule              thin lines
  ///
  /// and `definitions` is the markup of elements that `style` refers to.
  explicit SvgDrawing(std::string style, std::string definitions = {});

  void rect(const std::string& css, const SvgBox& box, const std::string& tooltip = {},
            double opacity = 1);
  void text(const std::string& css, double x, double y, const std::string& text,
            Anchor anchor = Anchor::start);
  void line(const std::string& css, double x1, double y1, double x2, double y2);
  /// `d` as in SVG.
  void path(const std::string& css, const std::string& d, const std::string& tooltip = {});

  /// The file, whose view is (0, 0) to (width, height). REQUIRES: called once
  std::string finish(double width, double height);

 private:
  const std::string style_, definitions_;
  std::ostringstream shapes_;
};

/// The text, escaped for XML and HTML; bytes that are no UTF-8 become U+FFFD.
std::string xml_escaped(const std::string& text);

/// A number with at most three digits after the point: "12.5".
std::string svg_number(double value);

/// A number for readers, with at most four significant digits: "0.3679", "1.2e-05".
std::string number_text(double value);

/// The distance of the ticks of an axis from 0 to `total`: 1, 2 or 5 times a power of ten, so that
/// there are up to ten. REQUIRES: 1e-300 < total < 1e300
double axis_tick(double total);

}  // namespace ringrad
