#include "report/sweep_reader.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/json_fields.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

struct Field {
  std::string text;
  SourcePos pos;
};

/// RFC 4180, with line feeds: a field in quotes may hold commas, line feeds and doubled quotes.
class CsvRows {
 public:
  explicit CsvRows(const FileText& file) : text_(file.text), pos_{file.path, 1, 1} {}

  bool at_end() const { return at_ == text_.size(); }
  const SourcePos& pos() const { return pos_; }

  std::vector<Field> next() {
    std::vector<Field> row;
    for (;;) {
      row.push_back(field());
      if (at_end()) throw ConfigError(pos_, "", "the row ends without a line feed");
      if (step() == '\n') return row;
    }
  }

 private:
  /// Up to the comma or line feed behind it.
  Field field() {
    Field out{"", pos_};
    if (at_end() || text_[at_] != '"') {
      while (!at_end() && text_[at_] != ',' && text_[at_] != '\n') out.text += step();
      return out;
    }
    step();
    for (;;) {
      if (at_end()) throw ConfigError(out.pos, "", "its quotes are not closed");
      const char c = step();
      if (c == '"' && (at_end() || text_[at_] != '"')) break;
      out.text += c;
      if (c == '"') step();
    }
    if (!at_end() && text_[at_] != ',' && text_[at_] != '\n') {
      throw ConfigError(pos_, "", "expected a comma or the end of the line behind the quotes");
    }
    return out;
  }

  char step() {
    const char c = text_[at_++];
    if (c == '\n') {
      ++pos_.line;
      pos_.column = 1;
    } else {
      ++pos_.column;
    }
    return c;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  SourcePos pos_;
};

/// The fields of one row behind those of the keys, by the names in kSweepColumns.
class RowReader {
 public:
  RowReader(const std::vector<std::string>& names, const std::vector<Field>& row, std::size_t first)
      : names_(names),
        row_(row),
        first_(first) {}

  const Field& next(std::string_view name) {
    check(at_ < names_.size() && names_[at_] == name, "columns are read in their order");
    return row_[first_ + at_++];
  }

  const Field& peek() const { return row_[first_ + at_]; }

  template <typename Number>
  Number number(std::string_view name) {
    const Field& field = next(name);
    Number value{};
    const char* end = field.text.data() + field.text.size();
    const auto [rest, error] = std::from_chars(field.text.data(), end, value);
    if (error != std::errc() || rest != end) fail(field, name, "expected a number");
    return value;
  }

  [[noreturn]] static void fail(const Field& field, std::string_view name,
                                const std::string& expected) {
    throw ConfigError(field.pos, std::string(name),
                      expected + ", got '" + field.text.substr(0, 40) + "'");
  }

 private:
  const std::vector<std::string>& names_;
  const std::vector<Field>& row_;
  std::size_t first_, at_ = 0;
};

std::vector<std::string> sweep_columns(bool priced) {
  std::vector<std::string> out(1);
  for (const char c : kSweepColumns) {
    if (c == ',')
      out.emplace_back();
    else
      out.back() += c;
  }
  if (priced) out.emplace_back(kPriceColumn);
  return out;
}

PointStatus status_of(const Field& field) {
  for (const PointStatus status : kPointStatuses) {
    if (field.text == to_string(status)) return status;
  }
  RowReader::fail(field, "status", "expected what became of a point");
}

SweepPoint read_point(RowReader row, bool priced) {
  SweepPoint point;
  point.status = status_of(row.next("status"));
  if (const Field& exit = row.next("exit"); exit.text != std::to_string(exit_code(point.status))) {
    RowReader::fail(exit, "exit", "expected " + std::to_string(exit_code(point.status)));
  }
  point.reason = row.next("reason").text;
  if (!point.timed()) return point;
  point.iteration_time = row.number<double>("iteration_time_s");
  point.tokens_per_s = row.number<double>("tokens_per_s");
  point.tflops_per_gpu = row.number<double>("tflops_per_gpu");
  point.mfu = row.number<double>("mfu");
  // A whole number of bytes below 2^53 loses no digit.
  point.peak_memory = std::llround(row.number<double>("peak_memory_max_gib") * kGiB);
  row.next("fits");
  point.bubble_fraction = row.number<double>("bubble_fraction");
  point.exposed_communication_fraction = row.number<double>("exposed_communication_fraction");
  point.num_ranks = row.number<std::int64_t>("num_ranks");
  point.program_digest = row.next("program_digest").text;
  const Field& may_fit = row.next("may_fit");
  point.may_fit = may_fit.text == "true";
  if (!point.may_fit && may_fit.text != "false")
    RowReader::fail(may_fit, "may_fit", "expected true or false");
  // Empty where a point's own study says no price.
  if (priced && !row.peek().text.empty())
    point.cost_per_million_tokens = row.number<double>(kPriceColumn);
  return point;
}

/// Keys and points.
SweepTable read_csv(const FileText& file) {
  SweepTable table;
  if (file.text.empty()) throw ConfigError(file.path + ": is empty");
  CsvRows rows(file);
  const std::vector<Field> head = rows.next();
  const bool priced = head.back().text == kPriceColumn;
  const std::vector<std::string> names = sweep_columns(priced);
  const std::size_t num_fields = head.size();
  bool known = num_fields > names.size() + 1 && head.front().text == "point";
  for (std::size_t i = 0; known && i < names.size(); ++i) {
    known = head[num_fields - names.size() + i].text == names[i];
  }
  if (!known)
    throw ConfigError({file.path, 1, 1}, "",
                      "is not the table of a sweep: point, keys, " + std::string(kSweepColumns));
  for (std::size_t k = 1; k < num_fields - names.size(); ++k) table.keys.push_back(head[k].text);
  while (!rows.at_end()) {
    const SourcePos pos = rows.pos();
    const std::vector<Field> row = rows.next();
    if (row.size() != num_fields) {
      throw ConfigError(pos, "",
                        "has " + std::to_string(row.size()) + " fields, the first line " +
                            std::to_string(num_fields));
    }
    if (row.front().text != std::to_string(table.points.size())) {
      RowReader::fail(row.front(), "point", "expected " + std::to_string(table.points.size()));
    }
    SweepPoint& point =
        table.points.emplace_back(read_point({names, row, num_fields - names.size()}, priced));
    for (std::size_t k = 0; k < table.keys.size(); ++k) point.values.push_back(row[k + 1].text);
  }
  return table;
}

}  // namespace

SweepTable read_sweep_table(const FileText& csv, const FileText& json) {
  SweepTable table = read_csv(csv);
  const JsonFile file(json.text, json.path);
  const JsonFields whole(file);
  table.study = whole.text("study");
  const Json* fidelity = whole.find("fidelity");
  if (fidelity == nullptr || !fidelity->is_null()) table.fidelity = whole.text("fidelity");
  if (whole.list("keys") != Json(table.keys)) whole.fail("keys", "are not those of " + csv.path);
  if (whole.integer("num_points") != static_cast<std::int64_t>(table.points.size())) {
    whole.fail("num_points", csv.path + " has " + std::to_string(table.points.size()));
  }
  return table;
}

}  // namespace trainyard
