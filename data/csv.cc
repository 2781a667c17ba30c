#include "ringrad/data/csv.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>
#include <system_error>

#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/data/text_file.h"

namespace ringrad {
namespace {

// Reads one field after the other.
class Reader {
 public:
  Reader(std::string_view text, char delimiter, Where where)
      : text_(text), delimiter_(delimiter), where_(where) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  bool at_end() const { return at_ >= text_.size(); }
  std::int64_t line() const { return line_; }

  /// The fields of the next line.
  std::vector<std::string> row() {
    std::vector<std::string> fields;
    do {
      fields.push_back(at_ < text_.size() && text_[at_] == '"' ? quoted() : plain());
    } while (skip(delimiter_));
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (!at_end() && !skip('\n'))
      fail("must have a delimiter or a line end after a field", quoted_bytes(text_.substr(at_, 1)));
    ++line_;
    return fields;
  }

  [[noreturn]] void fail(std::string_view rule, std::string_view fact) const {
    throw DataError(concat("csv: line ", line_, ' ', rule, "; got ", fact), where_);
  }

 private:
  bool skip(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string plain() {
    const char ends[] = {delimiter_, '\n', '\r'};
    const std::size_t end =
        std::min(text_.find_first_of(std::string_view(ends, 3), at_), text_.size());
    return std::string(text_.substr(std::exchange(at_, end), end - at_));
  }

  std::string quoted() {
    std::string field;
    const std::int64_t first_line = line_;
    for (++at_; !at_end(); ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        if (at_end() || text_[at_] != '"') return field;
      }
      line_ += text_[at_] == '\n';
      field += text_[at_];
    }
    line_ = first_line;
    fail("must have a closing quote", "none");
  }

  std::string_view text_;
  char delimiter_;
  Where where_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
};

}  // namespace

namespace {

std::vector<std::string> numbered(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

void check_names(const std::vector<std::string>& names, Where where) {
  std::map<std::string_view, std::size_t> columns;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto [first, is_new] = columns.emplace(names[i], i);
    RINGRAD_CHECK(is_new, DataError, where,
                  "csv: the header must name each column once, unless ignores_names is set; got ",
                  quoted_bytes(names[i]), " for columns ", first->second, " and ", i);
  }
}

enum class Parsed { number, text, too_large };

// Whether a number that is out of range is below 1: from_chars() does not say.
bool is_small(std::string_view field) {
  const std::size_t e = std::min(field.find_first_of("eE"), field.size());
  std::int64_t exponent = 0;
  if (e < field.size()) {
    const std::string_view digits = field.substr(e + (field[e + 1] == '+' ? 2 : 1));
    const auto error = std::from_chars(digits.data(), digits.data() + digits.size(), exponent).ec;
    if (error != std::errc()) return digits.starts_with('-');
  }
  const std::string_view digits = field.substr(0, e);
  const std::size_t point = std::min(digits.find('.'), e),
                    first = digits.find_first_of("123456789");
  return exponent < static_cast<std::int64_t>(first) - static_cast<std::int64_t>(point);
}

// A number without the sign + or the blanks around it.
std::string_view stripped(std::string_view field) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t first = std::min(field.find_first_not_of(kBlanks), field.size());
  field = field.substr(first, field.find_last_not_of(kBlanks) + 1 - first);
  if (field.starts_with('+') && !field.starts_with("+-")) field.remove_prefix(1);
  return field;
}

template <class Number>
Parsed parse(std::string_view field, Number& value) {
  const char* const end = field.data() + field.size();
  const auto [stopped, error] = std::from_chars(field.data(), end, value);
  if (stopped != end || error == std::errc::invalid_argument) return Parsed::text;
  if (error == std::errc()) return Parsed::number;
  value = 0;
  return is_small(field) ? Parsed::number : Parsed::too_large;
}

// A float that rounds to 16 bits as the double would: where it is inexact, its last bit is 1, so
// that it lies on neither side's tie.
// Paper: Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded sums"
float rounded_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const double error = value - double{nearest};
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (error == 0 || !std::isfinite(nearest) || bits % 2 == 1) return nearest;
  return std::bit_cast<float>((error < 0) == std::signbit(value) ? bits + 1 : bits - 1);
}

// The nearest number of the dtype.
template <class T>
Parsed parse_as(std::string_view field, T& value) {
  if constexpr (sizeof(T) > 2) {
    return parse(field, value);
  } else {
    double exact = 0;
    const Parsed parsed = parse(field, exact);
    value = T(rounded_to_odd(exact));
    const bool is_beyond = std::isfinite(exact) && !std::isfinite(float{value});
    return parsed == Parsed::number && is_beyond ? Parsed::too_large : parsed;
  }
}

}  // namespace

CsvTable::CsvTable(std::string_view text, const CsvOptions& options, Where where) {
  RINGRAD_CHECK(options.delimiter != '"' && options.delimiter != '\n' && options.delimiter != '\r',
                ValueError, where, "csv: the delimiter must be no quote and no line end; got ",
                quoted_bytes(std::string_view(&options.delimiter, 1)));
  Reader reader(text, options.delimiter, where);
  if (options.has_header && !reader.at_end()) names_ = reader.row();
  if (options.ignores_names) names_ = numbered(names_.size());
  check_names(names_, where);
  columns_.resize(names_.size());
  while (!reader.at_end()) {
    const std::int64_t line = reader.line();
    std::vector<std::string> row = reader.row();
    if (names_.empty()) {
      columns_.resize(row.size());
      names_ = numbered(row.size());
    }
    RINGRAD_CHECK(row.size() == columns_.size(), DataError, where, "csv: line ", line,
                  " must have ", columns_.size(), " fields, as the first; got ", row.size());
    for (std::size_t i = 0; i < row.size(); ++i) columns_[i].push_back(std::move(row[i]));
  }
}

std::int64_t CsvTable::num_rows() const {
  return columns_.empty() ? 0 : static_cast<std::int64_t>(columns_.front().size());
}

const std::vector<std::string>& CsvTable::column(const std::string& name, Where where) const {
  const auto found = std::ranges::find(names_, name);
  if (found == names_.end()) {
    std::string all;
    for (const std::string& other : names_) all += (all.empty() ? "" : ", ") + other;
    throw ValueError(concat("csv: there must be a column ", quoted_bytes(name), "; got ",
                            escaped_bytes(all, 500)),
                     where);
  }
  return columns_[static_cast<std::size_t>(found - names_.begin())];
}

Tensor CsvTable::numbers(const std::vector<std::string>& columns, DType dtype, Where where) const {
  const std::vector<std::string>& wanted = columns.empty() ? names_ : columns;
  const auto width = static_cast<std::int64_t>(wanted.size());
  RINGRAD_CHECK(is_floating(dtype), DTypeError, where, "csv: numbers must be floating; got ",
                dtype);
  const Tensor values = empty({num_rows(), width}, {.dtype = dtype, .device = Device()}, where);
  for (std::size_t c = 0; c < wanted.size(); ++c) {
    const std::vector<std::string>& fields = column(wanted[c], where);
    for (std::size_t r = 0; r < fields.size(); ++r) {
      Parsed parsed = Parsed::text;
      dispatch_floating(dtype, [&]<class T>() {
        parsed = parse_as(stripped(fields[r]), values.data<T>()[r * wanted.size() + c]);
      });
      RINGRAD_CHECK(parsed != Parsed::text, DataError, where, "csv: row ", r,
                    " must have a number in column ", quoted_bytes(wanted[c]), "; got ",
                    quoted_bytes(fields[r]));
      RINGRAD_CHECK(parsed == Parsed::number, DataError, where, "csv: row ", r,
                    " must have a number that ", dtype, " can hold in column ",
                    quoted_bytes(wanted[c]), "; got ", quoted_bytes(fields[r]));
    }
  }
  return values;
}

std::pair<Tensor, std::vector<std::string>> CsvTable::classes(const std::string& name,
                                                              Where where) const {
  const std::vector<std::string>& fields = column(name, where);
  std::vector<std::string> distinct = fields;
  std::ranges::sort(distinct);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  const Tensor numbers = empty({num_rows()}, {.dtype = DType::int64, .device = Device()}, where);
  for (std::size_t r = 0; r < fields.size(); ++r)
    numbers.data<std::int64_t>()[r] =
        std::ranges::lower_bound(distinct, fields[r]) - distinct.begin();
  return {numbers, distinct};
}

CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options, Where where) {
  const std::string text = read_text(path, "read_csv", options.most_bytes, where);
  try {
    return CsvTable(text, options, where);
  } catch (Error& error) {
    error.add_context("in " + path.string());
    throw;
  }
}

}  // namespace ringrad
