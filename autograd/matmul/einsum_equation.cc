#include "ringrad/autograd/matmul/einsum_equation.h"

#include <algorithm>
#include <string_view>

namespace ringrad::einsum_equation {
namespace {

constexpr char kEllipsis = '.';

// One operand's subscripts, or the output's: letters, and one kEllipsis for the three dots.
struct Term {
  std::string letters;
  std::size_t position = 0;  // of its first character in the equation

  bool has_ellipsis() const { return letters.find(kEllipsis) != std::string::npos; }
};

Label label_of(char letter) { return letter <= 'Z' ? letter - 'A' : letter - 'a' + 26; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char letter_of(Label label) {
  return static_cast<char>(label < 26 ? 'A' + label : 'a' + label - 26);
}

// The left and right side of the arrow, cut at commas.
struct Text {
  std::vector<Term> inputs{Term()};
  Term output;
  bool has_output = false;
};

Text cut(const std::string& equation, Where where) {
  Text text;
  Term* term = &text.inputs.back();
  const auto check = [&](bool holds, std::size_t at, const char* must) {
    RINGRAD_CHECK(holds, ValueError, where, "einsum: ", must, "; got '", equation[at],
                  "' at position ", at, " of \"", equation, '"');
  };
  for (std::size_t i = 0; i < equation.size(); ++i) {
    const char c = equation[i];
    const std::string_view rest = std::string_view(equation).substr(i);
    if (c == ' ') continue;
    if (c == ',') {
      check(!text.has_output, i, "there must be one result");
      text.inputs.push_back({.letters = {}, .position = i + 1});
      term = &text.inputs.back();
    } else if (rest.starts_with("->")) {
      check(!text.has_output, i, "there must be at most one arrow");
      text.has_output = true;
      text.output.position = i + 2;
      term = &text.output;
      ++i;
    } else if (rest.starts_with("...")) {
      check(!term->has_ellipsis(), i, "a term must have at most one ellipsis");
      term->letters += kEllipsis;
      i += 2;
    } else {
      check(is_letter(c), i, "subscripts must be letters, an ellipsis, commas and one arrow");
      term->letters += c;
    }
  }
  return text;
}

// The labels of an operand's axes.
Labels labels_of(const Term& term, const Tensor& x, std::size_t number, const std::string& equation,
                 Where where) {
  const int named = static_cast<int>(term.letters.size()) - term.has_ellipsis();
  const int hidden = x.dims(where) - named;
  RINGRAD_CHECK(term.has_ellipsis() ? hidden >= 0 : hidden == 0, ShapeError, where,
                "einsum: operand ", number, ", at position ", term.position, " of \"", equation,
                "\", must have ", term.has_ellipsis() ? "at least " : "", named,
                " axes; got shape ", x.shape());
  Labels labels;
  for (const char c : term.letters) {
    if (c != kEllipsis) {
      labels.push_back(label_of(c));
      continue;
    }
    for (int i = hidden; i > 0; --i) labels.push_back(kMostLabels - i);
  }
  return labels;
}

// Without an arrow: the axes of ellipses, then the letters that occur once, sorted.
Labels implicit_output(const Text& text, int num_hidden) {
  std::array<int, kLetters> times{};
  for (const Term& term : text.inputs)
    for (const char c : term.letters)
      if (c != kEllipsis) ++times[static_cast<std::size_t>(label_of(c))];
  Labels output;
  for (int i = num_hidden; i > 0; --i) output.push_back(kMostLabels - i);
  for (Label label = 0; label < kLetters; ++label)
    if (times[static_cast<std::size_t>(label)] == 1) output.push_back(label);
  return output;
}

Labels explicit_output(const Term& term, int num_hidden, LabelSet known,
                       const std::string& equation, Where where) {
  Labels output;
  LabelSet seen = 0;
  for (const char c : term.letters) {
    if (c == kEllipsis) {
      for (int i = num_hidden; i > 0; --i) output.push_back(kMostLabels - i);
      continue;
    }
    const LabelSet label = only(label_of(c));
    const std::size_t at = equation.find(c, term.position);
    RINGRAD_CHECK(known & label, ValueError, where,
                  "einsum: the result's subscripts must occur in "
                  "an operand; got '",
                  c, "' at position ", at, " of \"", equation, '"');
    RINGRAD_CHECK(!(seen & label), ValueError, where,
                  "einsum: the result's subscripts must be "
                  "distinct; got '",
                  c, "' twice from position ", at, " of \"", equation, '"');
    seen |= label;
    output.push_back(label_of(c));
  }
  return output;
}

std::string name_of(Label label) {
  return label < kLetters ? concat('\'', letter_of(label), '\'') : "an ellipsis's axis";
}

// The extent of each label; an extent of 1 broadcasts.
void find_extents(Equation& found, std::span<const Tensor> operands, const std::string& equation,
                  Where where) {
  std::array<std::size_t, kMostLabels> source{};
  found.extents.fill(1);
  for (std::size_t k = 0; k < operands.size(); ++k)
    for (std::size_t i = 0; i < found.operands[k].size(); ++i) {
      const auto label = static_cast<std::size_t>(found.operands[k][i]);
      const std::int64_t extent = operands[k].shape()[static_cast<int>(i)];
      if (extent == 1) continue;
      std::int64_t& known = found.extents[label];
      RINGRAD_CHECK(known == 1 || known == extent, ShapeError, where,
                    "einsum: ", name_of(found.operands[k][i]), " of \"", equation,
                    "\" must have one extent; got ", known, " in operand ", source[label], " and ",
                    extent, " in operand ", k);
      known = extent;
      source[label] = k;
    }
}

}  // namespace

LabelSet set_of(const Labels& labels) {
  LabelSet set = 0;
  for (const Label label : labels) set |= only(label);
  return set;
}

Equation read(const std::string& equation, std::span<const Tensor> operands, Where where) {
  const Text text = cut(equation, where);
  RINGRAD_CHECK(text.inputs.size() == operands.size(), ValueError, where, "einsum: \"", equation,
                "\" must name as many operands as there are; got ", operands.size());
  Equation found;
  LabelSet known = 0;
  int num_hidden = 0;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const Term& term = text.inputs[k];
    found.operands.push_back(labels_of(term, operands[k], k, equation, where));
    known |= set_of(found.operands.back());
    if (term.has_ellipsis())
      num_hidden =
          std::max(num_hidden, operands[k].dims() + 1 - static_cast<int>(term.letters.size()));
  }
  found.output = text.has_output ? explicit_output(text.output, num_hidden, known, equation, where)
                                 : implicit_output(text, num_hidden);
  RINGRAD_CHECK(found.output.size() <= kMaxDims, ShapeError, where, "einsum: the result of \"",
                equation, "\" must have at most ", kMaxDims, " axes; got ", found.output.size());
  find_extents(found, operands, equation, where);
  return found;
}

}  // namespace ringrad::einsum_equation
