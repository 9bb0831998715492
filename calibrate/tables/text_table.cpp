#include "calibrate/tables/text_table.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/place_of.h"
#include "engine/base/quantity.h"
#include "engine/base/user_text.h"

namespace trainyard {

TextTable::TextTable(const std::string& text, std::string file) : file_(std::move(file)) {
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines_.push_back(line);
  }
}

std::vector<TextRow> TextTable::rows() const {
  std::vector<TextRow> rows;
  for (std::size_t i = 1; i < lines_.size(); ++i) {
    if (!lines_[i].empty()) rows.push_back(cells_of(lines_[i], i + 1));
  }
  return rows;
}

std::string TextTable::file_name() const {
  return std::filesystem::path(file_).filename().string();
}

void TextTable::fail(std::size_t line, const std::string& problem) const {
  throw ConfigError({file_, static_cast<int>(std::max<std::size_t>(line, 1)), 1}, "", problem);
}

SourcePos TextTable::place(const TextRow& row, std::size_t at) const {
  return {file_, static_cast<int>(row.line), at < row.columns.size() ? row.columns[at] : row.end};
}

void TextTable::fail(const TextRow& row, std::size_t at, const std::string& problem) const {
  throw ConfigError(place(row, at), "", problem);
}

const std::string& TextTable::text(const TextRow& row, std::size_t at) const {
  if (at >= row.cells.size()) {
    fail(row, at,
         "expected a cell in column " + std::to_string(at + 1) + ", the row has " +
             std::to_string(row.cells.size()));
  }
  return row.cells[at];
}

double TextTable::number(const TextRow& row, std::size_t at) const {
  const std::string& cell = text(row, at);
  const auto value = parse_number(cell);
  if (!value) {
    fail(row, at,
         "expected a number in column " + std::to_string(at + 1) + ", got " + in_quotes(cell));
  }
  return *value;
}

std::int64_t TextTable::whole(const TextRow& row, std::size_t at, std::int64_t least,
                              std::int64_t most) const {
  const double value = number(row, at);
  if (!(value >= static_cast<double>(least)) || value > static_cast<double>(most) ||
      value != std::trunc(value)) {
    fail(row, at,
         "expected a whole number from " + std::to_string(least) + " to " + std::to_string(most) +
             " in column " + std::to_string(at + 1) + ", got " + in_quotes(row.cells[at]));
  }
  return static_cast<std::int64_t>(value);
}

Seconds TextTable::time(const TextRow& row, std::size_t at, Seconds unit) const {
  constexpr Seconds kLeast = 1e-9, kMost = 3600;
  const Seconds value = number(row, at) * unit;
  // A figure of exactly the least may come out a bit below it in seconds.
  if (!(value >= kLeast * (1 - 1e-9)) || value > kMost * (1 + 1e-9)) {
    fail(row, at,
         "expected a time of 1 ns to 1 h in column " + std::to_string(at + 1) + ", got " +
             in_quotes(row.cells[at]));
  }
  return value;
}

TextRow words_of(const std::string& text, std::size_t line) {
  TextRow row;
  row.line = line;
  row.end = static_cast<int>(text.size()) + 1;
  constexpr const char* kBlank = " \t\r\v\f";
  for (std::size_t at = text.find_first_not_of(kBlank); at != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlank, at), text.size());
    row.cells.push_back(text.substr(at, end - at));
    row.columns.push_back(static_cast<int>(at) + 1);
    at = text.find_first_not_of(kBlank, end);
  }
  return row;
}

TextRow cells_of(const std::string& text, std::size_t line) {
  TextRow row;
  row.line = line;
  row.end = static_cast<int>(text.size()) + 1;
  for (std::size_t at = 0; !text.empty() && at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    row.cells.push_back(text.substr(at, end - at));
    row.columns.push_back(static_cast<int>(at) + 1);
    at = end + 1;
  }
  return row;
}

std::size_t column(const TextRow& header, const std::string& name) {
  return place_of(header.cells, name);
}

}  // namespace trainyard
