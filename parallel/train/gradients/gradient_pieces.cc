#include "ringrad/parallel/train/gradients/gradient_pieces.h"

#include <locale>
#include <map>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

namespace ringrad {
namespace {

using Range = std::pair<std::int64_t, std::int64_t>;
// True if the ranges follow each other from 0 to the end.
bool cover(const std::set<Range>& ranges, std::int64_t end) {
  std::int64_t next = 0;
  for (const auto& [from, to] : ranges) {
    if (from != next) return false;
    next = to;
  }
  return next == end;
}

// All ranks' pieces of one parameter.
struct Parameter {
  std::int64_t numel = 0;
  std::map<TensorSlice, std::set<Range>> slices;

  bool is_covered_once() const {
    std::set<Range> columns;
    std::set<std::int64_t> rows;
    for (const auto& [slice, ranges] : slices) {
      rows.insert(slice.rows);
      columns.emplace(slice.begin, slice.end);
      if (!cover(ranges, slice.numel())) return false;
    }
    return rows.size() == 1 && cover(columns, numel / *rows.begin());
  }
};

std::string text_of_slices(const Parameter& parameter) {
  std::string text;
  for (const auto& [slice, ranges] : parameter.slices) {
    text += concat(text.empty() ? "" : "; ", "columns [", slice.begin, ", ", slice.end, ") of ",
                   slice.rows, slice.rows == 1 ? " row" : " rows");
    for (const auto& [from, to] : ranges) text += concat(", of these [", from, ", ", to, ')');
  }
  return text;
}

}  // namespace

// The name comes last, as it may contain spaces.
std::string text_of(const std::vector<GradientPiece>& pieces) {
  std::string text;
  for (const auto& [name, numel, slice, begin, end, is_repeated] : pieces)
    text += concat(numel, ' ', slice.rows, ' ', slice.begin, ' ', slice.end, ' ', begin, ' ', end,
                   ' ', is_repeated ? 1 : 0, ' ', name, '\n');
  return text;
}

std::vector<GradientPiece> parse_gradient_pieces(std::string_view text) {
  std::vector<GradientPiece> pieces;
  std::istringstream in{std::string(text)};
  in.imbue(std::locale::classic());
  for (GradientPiece piece; in >> piece.numel >> piece.slice.rows >> piece.slice.begin >>
                            piece.slice.end >> piece.begin >> piece.end >> piece.is_repeated;) {
    in.get();
    std::getline(in, piece.name);
    pieces.push_back(piece);
  }
  return pieces;
}

std::vector<bool> counted_pieces(const std::vector<std::vector<GradientPiece>>& by_rank, int rank,
                                 Where where) {
  std::map<std::string, Parameter> parameters;
  std::map<std::tuple<std::string, TensorSlice, Range>, int> first_rank;
  for (int r = 0; r < static_cast<int>(by_rank.size()); ++r)
    for (const GradientPiece& piece : by_rank[static_cast<std::size_t>(r)]) {
      const Range range(piece.begin, piece.end);
      Parameter& parameter = parameters[piece.name];
      RINGRAD_CHECK(parameter.slices.empty() || parameter.numel == piece.numel, ValueError, where,
                    "ModelGradients: a parameter must have one size on all ranks; got ",
                    parameter.numel, " and ", piece.numel, " elements of ", piece.name);
      parameter.numel = piece.numel;
      parameter.slices[piece.slice].insert(range);
      first_rank.try_emplace({piece.name, piece.slice, range}, r);
    }
  for (const auto& [name, parameter] : parameters)
    RINGRAD_CHECK(parameter.is_covered_once(), ValueError, where,
                  "ModelGradients: all ranks' pieces of a parameter must cover it, and be equal or "
                  "have nothing in common; got for ",
                  name, " of ", parameter.numel, " elements: ", text_of_slices(parameter));
  std::vector<bool> counted;
  for (const GradientPiece& piece : by_rank[static_cast<std::size_t>(rank)])
    counted.push_back(!piece.is_repeated &&
                      first_rank.at({piece.name, piece.slice, {piece.begin, piece.end}}) == rank);
  return counted;
}

}  // namespace ringrad
