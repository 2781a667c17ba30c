#include "ringrad/core/draw/svg.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <locale>
#include <string_view>
#include <utility>

namespace ringrad {
namespace {

constexpr char kPageStyle[] = R"(
text { font: 12px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
.page { fill: #ffffff; }
.ink { fill: #1f2328; }
.dim { fill: #59636e; }
.rule { stroke: #d1d9e0; stroke-width: 1; fill: none; }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117; }
  .ink { fill: #f0f6fc; }
  .dim { fill: #9198a1; }
  .rule { stroke: #3d444d; }
})";

std::string tooltip_of(const std::string& text) {
  return text.empty() ? "" : "<title>" + xml_escaped(text) + "</title>";
}

// The number of bytes of the character that begins the text and is no ASCII; 0 if it is no UTF-8.
std::size_t wide_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t bytes = byte(0) < 0xC2 ? 0 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
  if (bytes == 0 || byte(0) > 0xF4 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const unsigned front = byte(0) << 8 | byte(1);  // E0, ED, F0 and F4 do not go with all bytes
  const bool is_overlong =
      (front >= 0xE000 && front < 0xE0A0) || (front >= 0xF000 && front < 0xF090);
  const bool is_no_character = (front >= 0xEDA0 && front < 0xEE00) || front >= 0xF490;
  return is_overlong || is_no_character ? 0 : bytes;
}

}  // namespace

std::string xml_escaped(const std::string& text) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (static_cast<unsigned char>(c) >= 0x80) {
      const std::size_t bytes = wide_character(std::string_view(text).substr(at));
      result += bytes > 0 ? text.substr(at, bytes) : "\uFFFD";
      at += std::max<std::size_t>(bytes, 1) - 1;
    } else if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else {  // XML forbids control characters
      result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result;
}

std::string svg_number(double value) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << std::fixed;
  out.precision(3);
  out << value;
  std::string text = std::move(out).str();
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

double axis_tick(double total) {
  const double power = std::pow(10, std::floor(std::log10(total / 10)));
  for (const double tick : {power, 2 * power, 5 * power})
    if (total / tick <= 10) return tick;
  return 10 * power;
}

SvgDrawing::SvgDrawing(std::string style, std::string definitions)
    : style_(std::move(style)), definitions_(std::move(definitions)) {}

void SvgDrawing::rect(const std::string& css, const SvgBox& box, const std::string& tooltip,
                      double opacity) {
  shapes_ << "<rect class=\"" << css << "\" x=\"" << svg_number(box.x) << "\" y=\""
          << svg_number(box.y) << "\" width=\"" << svg_number(box.width) << "\" height=\""
          << svg_number(box.height) << '"';
  if (opacity != 1) shapes_ << " fill-opacity=\"" << svg_number(opacity) << '"';
  shapes_ << '>' << tooltip_of(tooltip) << "</rect>\n";
}

void SvgDrawing::text(const std::string& css, double x, double y, const std::string& text,
                      Anchor anchor) {
  const char* const anchors[] = {"start", "middle", "end"};
  shapes_ << "<text class=\"" << css << "\" x=\"" << svg_number(x) << "\" y=\"" << svg_number(y)
          << "\" text-anchor=\"" << anchors[static_cast<int>(anchor)] << "\">" << xml_escaped(text)
          << "</text>\n";
}

void SvgDrawing::line(const std::string& css, double x1, double y1, double x2, double y2) {
  path(css,
       "M" + svg_number(x1) + " " + svg_number(y1) + "L" + svg_number(x2) + " " + svg_number(y2));
}

void SvgDrawing::path(const std::string& css, const std::string& d, const std::string& tooltip) {
  shapes_ << "<path class=\"" << css << "\" d=\"" << d << "\">" << tooltip_of(tooltip)
          << "</path>\n";
}

std::string SvgDrawing::finish(double width, double height) {
  std::ostringstream out;
  const std::string w = svg_number(std::ceil(width)), h = svg_number(std::ceil(height));
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << w << "\" height=\"" << h
      << "\" viewBox=\"0 0 " << w << ' ' << h << "\">\n<style>" << kPageStyle << style_
      << "</style>\n<defs>" << definitions_
      << "</defs>\n<rect class=\"page\" x=\"0\" y=\"0\" width=\"" << w << "\" height=\"" << h
      << "\"/>\n"
      << shapes_.str() << "</svg>\n";
  return std::move(out).str();
}

}  // namespace ringrad
