// Tables that others have written as text: rows of cells that know where they stand, so that what
// is wrong with a figure is said at its line and column.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/units.h"

namespace trainyard {

/// A line taken apart, at words or at commas.
struct TextRow {
  std::size_t line = 1;  // of the file, from 1
  std::vector<std::string> cells;
  std::vector<int> columns;  // where each cell begins, from 1
  int end = 1;               // the column behind the line
};

TextRow words_of(const std::string& text, std::size_t line);
TextRow cells_of(const std::string& text, std::size_t line);  // separated by commas

/// Place of a column; its number of columns if there is none.
std::size_t column(const TextRow& header, const std::string& name);

class TextTable {
 public:
  TextTable(const std::string& text, std::string file);

  const std::vector<std::string>& lines() const { return lines_; }
  std::string first_line() const { return lines_.empty() ? "" : lines_.front(); }
  /// The rows below the header, empty lines out.
  std::vector<TextRow> rows() const;
  /// The file's name without its folder.
  std::string file_name() const;

  /// Cell `at` of a row; where the row ends before it, its end.
  SourcePos place(const TextRow& row, std::size_t at) const;

  /// Throws ConfigError at a line, counted from 1.
  [[noreturn]] void fail(std::size_t line, const std::string& problem) const;
  /// At place(row, at).
  [[noreturn]] void fail(const TextRow& row, std::size_t at, const std::string& problem) const;

  /// The cell's text, which the row must have.
  const std::string& text(const TextRow& row, std::size_t at) const;
  double number(const TextRow& row, std::size_t at) const;
  std::int64_t whole(const TextRow& row, std::size_t at, std::int64_t least,
                     std::int64_t most) const;
  /// A measured time in units of `unit` seconds. What no clock says of a kernel or a message is
  /// refused: below 1 ns, above 1 h.
  Seconds time(const TextRow& row, std::size_t at, Seconds unit) const;

 private:
  std::string file_;
  std::vector<std::string> lines_;
};

}  // namespace trainyard
