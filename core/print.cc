// Printing: chooses the elements to show, turns them into strings of equal width, and lays these
// out in nested brackets.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <string>
#include <vector>

#include "ringrad/core/tensor.h"
#include "ringrad/core/transfer.h"

namespace ringrad {
namespace {

constexpr std::int64_t kSummaryThreshold = 1000;  // tensors with more elements are summarised
constexpr std::int64_t kEdge = 3;                 // positions shown at each end of such an axis
constexpr int kLineWidth = 80;
constexpr int kDecimals = 4;
constexpr std::int64_t kGap = -1;  // marks positions that are left out, shown as "..."
constexpr int kGapWidth = 3;

// The positions of each axis to show; kGap marks where positions are left out.
std::vector<std::vector<std::int64_t>> shown_positions(const Tensor& x) {
  std::vector<std::vector<std::int64_t>> shown;
  for (const std::int64_t extent : x.shape()) {
    auto& positions = shown.emplace_back();
    const bool summarise = x.numel() > kSummaryThreshold && extent > 2 * kEdge;
    for (std::int64_t i = 0; i < extent; ++i) {
      if (summarise && i == kEdge) {
        positions.push_back(kGap);
        i = extent - kEdge;
      }
      positions.push_back(i);
    }
  }
  return shown;
}

// The format of floating values that are shown together, chosen so that no value loses its meaning.
struct FloatFormat {
  bool whole = true;        // every value is a whole number: 1. rather than 1.0000
  bool scientific = false;  // some value is too large or too small for kDecimals

  explicit FloatFormat(const std::vector<Scalar>& values) {
    for (const Scalar& value : values) {
      const double magnitude = std::abs(value.to<double>());
      if (!std::isfinite(magnitude) || magnitude == 0) continue;
      whole &= magnitude == std::floor(magnitude);
      scientific |= magnitude >= 1e8 || magnitude < 1e-4;
    }
  }

  std::string operator()(double value) const {
    if (std::isnan(value)) return "nan";  // never "-nan": a NaN's sign has no meaning
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    char text[32];
    if (scientific)
      std::snprintf(text, sizeof text, "%.*e", kDecimals, value);
    else if (whole)
      std::snprintf(text, sizeof text, "%.0f.", value);
    else
      std::snprintf(text, sizeof text, "%.*f", kDecimals, value);
    return text;
  }
};

std::vector<std::string> to_strings(const std::vector<Scalar>& values) {
  const FloatFormat format(values);
  std::vector<std::string> strings;
  std::size_t width = 0;
  for (const Scalar& value : values) {
    if (value.is_floating())
      strings.push_back(format(value.to<double>()));
    else if (value.dtype() == DType::bool_)
      strings.push_back(value.to<bool>() ? "True" : "False");
    else
      strings.push_back(std::to_string(value.to<std::int64_t>()));
    width = std::max(width, strings.back().size());
  }
  for (std::string& text : strings) text.insert(0, width - text.size(), ' ');
  return strings;
}

class Printer {
 public:
  Printer(std::ostream& out, const Tensor& x) : out_(out), x_(x), shown_(shown_positions(x)) {
    collect(0, 0);
    strings_ = to_strings(values_);
  }

  // Prints the brackets of `axis` and everything within; the opening bracket is `indent` columns
  // from the left.
  void print(int axis, int indent) {
    if (axis == x_.dims()) {
      out_ << strings_[next_++];
      return;
    }
    out_ << '[';
    const int start = indent + 1;
    int column = start;
    const auto& positions = shown_[static_cast<unsigned>(axis)];
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const bool gap = positions[i] == kGap;
      if (axis + 1 == x_.dims()) {
        const int width = gap ? kGapWidth : static_cast<int>(strings_.front().size());
        if (i > 0) column = separate(column, start, width);
        column += width;
      } else if (i > 0) {
        // One line break per closing bracket, so that an empty line separates matrices.
        break_line(x_.dims() - axis - 1, start);
      }
      if (gap)
        out_ << "...";
      else
        print(axis + 1, start);
    }
    out_ << ']';
  }

 private:
  void collect(int axis, std::int64_t offset) {
    if (axis == x_.dims()) {
      dispatch_dtype(x_.dtype(), [&]<class T>() { values_.push_back(x_.data<T>()[offset]); });
      return;
    }
    for (const std::int64_t position : shown_[static_cast<unsigned>(axis)])
      if (position != kGap) collect(axis + 1, offset + position * x_.strides()[axis]);
  }

  // Writes a comma at `column`. Begins a new line if the next `width` columns and a comma do not
  // fit. Returns the column of the next element.
  int separate(int column, int start, int width) {
    if (column + 2 + width + 1 > kLineWidth) {
      break_line(1, start);
      return start;
    }
    out_ << ", ";
    return column + 2;
  }

  void break_line(int count, int column) {
    out_ << ',' << std::string(static_cast<unsigned>(count), '\n')
         << std::string(static_cast<unsigned>(column), ' ');
  }

  std::ostream& out_;
  const Tensor x_;
  std::vector<std::vector<std::int64_t>> shown_;
  std::vector<Scalar> values_;
  std::vector<std::string> strings_;
  std::size_t next_ = 0;
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  if (!tensor.defined()) return out << "tensor(undefined)";
  constexpr std::string_view kPrefix = "tensor(";
  out << kPrefix;
  const bool empty = tensor.numel() == 0;
  if (empty) {
    out << "[]";
    if (tensor.dims() != 1) out << ", shape=" << tensor.shape();
  } else {
    Printer(out, to_host(tensor)).print(0, static_cast<int>(kPrefix.size()));
  }
  if (tensor.device() != Device()) out << ", device=" << tensor.device();
  const DType dtype = tensor.dtype();
  const bool obvious =
      dtype == DType::float32 || (!empty && (dtype == DType::int64 || dtype == DType::bool_));
  if (!obvious) out << ", dtype=" << dtype;
  if (tensor.requires_grad()) out << ", requires_grad=True";
  return out << ')';
}

}  // namespace ringrad
