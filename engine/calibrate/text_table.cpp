#include "engine/calibrate/text_table.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>
#include <utility>

#include "engine/base/error.h"
#include "engine/config/quantity.h"

namespace trainyard {

TextTable::TextTable(const std::string& text, std::string file) : file_(std::move(file)) {
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines_.push_back(line);
}

std::string TextTable::file_name() const {
  return std::filesystem::path(file_).filename().string();
}

void TextTable::fail(std::size_t line, const std::string& problem) const {
  throw ConfigError({file_, static_cast<int>(std::max<std::size_t>(line, 1)), 1}, "", problem);
}

double TextTable::number(const std::vector<std::string>& cells, std::size_t at,
                         std::size_t line) const {
  const auto value = at < cells.size() ? parse_number(cells[at]) : std::nullopt;
  if (!value || *value < 0) fail(line, "expected a number in column " + std::to_string(at + 1));
  return *value;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  if (!cells.empty() && !cells.back().empty() && cells.back().back() == '\r')
    cells.back().pop_back();
  return cells;
}

std::size_t column(const std::vector<std::string>& header, const std::string& name) {
  return static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
}

}  // namespace trainyard
