// The text of study.resolved.yaml while it is written: keys in their maps, each with a comment that
// says where its value came from.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "study/study.h"
#include "study/study_key.h"
#include "study/study_writer.h"

namespace trainyard {

std::string bool_text(bool value);

/// Text as YAML reads it back: bare where it is plainly a word, else in double quotes. Text that a
/// key may also say as a number goes through ResolvedText::line().
std::string yaml_text(std::string_view text);

class ResolvedText {
 public:
  explicit ResolvedText(const Study& study);

  void open(const std::string& key);  // a map; a key that is a pattern is quoted
  void close();

  /// `yaml` is written as it is.
  void line(const std::string& key, const std::string& yaml);
  void text(const std::string& key, std::string_view value);
  void integer(const std::string& key, std::int64_t value);
  void number(const std::string& key, double value);
  void flag(const std::string& key, bool value);

  using Rules = std::vector<std::pair<std::string_view, std::function<void()>>>;
  /// A map with every key of a table: by the rule that names it, else its field. A key with neither
  /// is not written.
  void map(const std::string& name, const KeyTable& table, const Rules& rules = {});

  std::string take() { return std::move(text_); }
  /// The same without comments: key paths, and what stands behind them.
  ResolvedValues take_values() { return std::move(values_); }

 private:
  void field(const StudyKey& key);
  void indent();
  std::string path_of(const std::string& key) const;

  const Study& study_;
  std::string text_;
  ResolvedValues values_;
  std::vector<std::string> path_;
};

/// `cluster:`, with its links.
void write_cluster(ResolvedText& out, const Study& study);
void write_data(ResolvedText& out, const DataConfig& data, const DocumentConfig& documents);
/// The keys that the stage has a use for.
void write_zero(ResolvedText& out, const ZeroConfig& zero);

}  // namespace trainyard
