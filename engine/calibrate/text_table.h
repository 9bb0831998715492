// Tables that others have written as text: lines, words, cells.
#pragma once

#include <string>
#include <vector>

namespace trainyard {

class TextTable {
 public:
  TextTable(const std::string& text, std::string file);

  const std::vector<std::string>& lines() const { return lines_; }
  std::string first_line() const { return lines_.empty() ? "" : lines_.front(); }
  /// The file's name without its folder.
  std::string file_name() const;

  /// Throws ConfigError at a line, counted from 1.
  [[noreturn]] void fail(std::size_t line, const std::string& problem) const;

  /// The number in cell `at` of a line, not negative.
  double number(const std::vector<std::string>& cells, std::size_t at, std::size_t line) const;

 private:
  std::string file_;
  std::vector<std::string> lines_;
};

std::vector<std::string> words_of(const std::string& line);
std::vector<std::string> cells_of(const std::string& line);  // separated by commas

/// Place of a column; its number of columns if there is none.
std::size_t column(const std::vector<std::string>& header, const std::string& name);

}  // namespace trainyard
