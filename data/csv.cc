#include "ringrad/data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <system_error>
#include <utility>

#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/data/text/text_file.h"

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

// from_chars() does not say whether a number is out of range because it is large or small.
Parsed parse(std::string_view field, double& value) {
  const char* const end = field.data() + field.size();
  const auto [stopped, error] = std::from_chars(field.data(), end, value);
  if (stopped != end || error == std::errc::invalid_argument) return Parsed::text;
  if (error == std::errc()) return Parsed::number;
  long double wide = 0;
  const auto again = std::from_chars(field.data(), end, wide).ec;
  const bool is_small = again == std::errc() ? std::abs(wide) < 1
                                             : field.find_first_of("eE") != field.npos &&
                                                   field[field.find_first_of("eE") + 1] == '-';
  value = again == std::errc() && is_small ? static_cast<double>(wide) : 0;
  return is_small ? Parsed::number : Parsed::too_large;
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
      std::string_view field = fields[r];
      while (field.starts_with(' ')) field.remove_prefix(1);
      while (field.ends_with(' ')) field.remove_suffix(1);
      double value = 0;
      const Parsed parsed = parse(field, value);
      RINGRAD_CHECK(parsed != Parsed::text, DataError, where, "csv: row ", r,
                    " must have a number in column ", quoted_bytes(wanted[c]), "; got ",
                    quoted_bytes(fields[r]));
      dispatch_floating(dtype, [&]<class T>() {
        const T stored = static_cast<T>(static_cast<MathType<T>>(value));
        const bool fits = parsed == Parsed::number &&
                          (!std::isfinite(value) || std::isfinite(static_cast<double>(stored)));
        RINGRAD_CHECK(fits, DataError, where, "csv: row ", r, " must have a number that ", dtype,
                      " can hold in column ", quoted_bytes(wanted[c]), "; got ",
                      quoted_bytes(fields[r]));
        values.data<T>()[r * wanted.size() + c] = stored;
      });
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
  const std::string text = read_text(path, "read_csv", where);
  try {
    return CsvTable(text, options, where);
  } catch (Error& error) {
    error.add_context("in " + path.string());
    throw;
  }
}

}  // namespace ringrad
