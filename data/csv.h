// Tables in CSV files.
//
//     const CsvTable table = read_csv("iris.csv");
//     const Tensor x = table.numbers({"length", "width"});      (rows, 2) of float32
//     const auto [y, names] = table.classes("species");         (rows) of int64; {"setosa", ...}
//
// Format: RFC 4180. A field between double quotes may contain delimiters, line ends and, doubled,
// quotes. Lines may end in \n or \r\n. The file may be compressed (.gz).

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringrad/core/tensor.h"

namespace ringrad {

struct CsvOptions {
  char delimiter = ',';
  bool has_header = true;      ///< the first line names the columns; else they are "0", "1", ...
  bool ignores_names = false;  ///< the columns are "0", "1", ..., whatever the header calls them
  std::int64_t most_bytes = std::int64_t{1} << 32;  ///< of a file's text, decompressed
};

class CsvTable {
 public:
  /// Throws DataError, with the number of the line, if a line has another number of fields than the
  /// first, a quoted field does not end, or text follows a closing quote; DataError that names the
  /// columns if the header calls two of them the same.
  explicit CsvTable(std::string_view text, const CsvOptions& options = {},
                    Where where = Where::current());

  const std::vector<std::string>& names() const { return names_; }
  /// The number of rows, without the header.
  std::int64_t num_rows() const;

  /// The fields of a column. Throws ValueError, listing the names, for one that is not there.
  const std::vector<std::string>& column(const std::string& name,
                                         Where where = Where::current()) const;

  /// Columns as numbers, (rows, columns), on cpu:0; all columns if none is named. Each is the
  /// dtype's number that is nearest to the text (for 16 bits, to its float64). A number too small
  /// for the dtype becomes 0. Spaces and tabs around a number are ignored; "nan" and "inf" are
  /// numbers.
  ///
  /// Throws: DataError, with the row and the column, for a field that is no number, or beyond the
  ///         dtype's largest; DTypeError unless the dtype is floating; ValueError for a column that
  ///         is not there
  Tensor numbers(const std::vector<std::string>& columns = {}, DType dtype = DType::float32,
                 Where where = Where::current()) const;

  /// A column of classes: the index of each field in the sorted list of distinct fields, and that
  /// list.
  std::pair<Tensor, std::vector<std::string>> classes(const std::string& column,
                                                      Where where = Where::current()) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<std::string>> columns_;
};

/// Throws as CsvTable, naming the file; also DataError if the file cannot be read or is too long.
CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options = {},
                  Where where = Where::current());

}  // namespace ringrad
