#include "calibrate/validate/case_list.h"

#include <algorithm>
#include <utility>

#include "engine/base/quantity.h"
#include "study/study_section.h"

namespace trainyard {

namespace {

/// The text of a scalar under `key`, "" where there is none.
std::string text_of(const YamlNode& node, std::string_view key) {
  if (!node.is_map()) return "";
  const std::optional<YamlNode> found = node.find(key);
  return found && found->is_scalar() ? found->as_string() : "";
}

/// `suspect: true` without a reason is one too.
std::string suspicion(const YamlNode& node) {
  const std::optional<YamlNode> found = node.find("suspect");
  if (!found || found->is_null()) return "";
  if (!found->is_scalar()) return "no reason given";
  const std::string text = found->as_string();
  if (text == "false") return "";
  return text.empty() || text == "true" ? "no reason given" : text;
}

// Seconds and GiB: what is beyond them is a slip of the hand, and its error no number to read.
constexpr double kLeastFigure = 1e-9;
constexpr double kMostFigure = 1e9;

std::optional<double> measured_figure(const YamlNode& measured, std::string_view key) {
  const std::optional<YamlNode> found = measured.find(key);
  if (!found || found->is_null()) return std::nullopt;
  const double value = found->as_number();
  if (!(value >= kLeastFigure && value <= kMostFigure)) {
    found->fail("expected " + number_text(kLeastFigure) + " to " + number_text(kMostFigure) +
                ", got " + number_text(value));
  }
  return value;
}

void read_measured(const YamlNode& node, CaseFacts& facts) {
  const YamlNode measured = node.at("measured");
  facts.iteration_time = measured_figure(measured, "iteration_time_s");
  facts.peak_memory_gib = measured_figure(measured, "peak_memory_gib");
  if (const auto kind = measured.find("memory_kind"); kind && !kind->is_null())
    facts.memory_kind =
        static_cast<MemoryKind>(read_word(*kind, "kind of memory", kMemoryKindWords));
  if (!facts.iteration_time && !facts.peak_memory_gib) {
    measured.fail("expected iteration_time_s, peak_memory_gib, or both");
  }
}

void read_words(const YamlNode& node, CaseFacts& facts) {
  if (const std::string id = text_of(node, "id"); !id.empty()) facts.id = id;
  facts.source = text_of(node, "source");
  facts.family = source_family(facts.source);
  facts.suspect = suspicion(node);
  facts.era = text_of(node, "era");
  facts.framework = text_of(node, "framework");
  if (const auto framework = node.find("framework"); framework && framework->is_map()) {
    facts.framework = text_of(*framework, "name");
    facts.framework_version = text_of(*framework, "version");
  }
  const std::optional<YamlNode> cluster = node.find("cluster");
  if (!cluster || !cluster->is_map()) return;
  facts.device = text_of(*cluster, "gpu");
  if (facts.device.empty()) facts.device = text_of(*cluster, "device");
  try {
    if (const auto gpus = cluster->find("gpus")) facts.num_gpus = gpus->as_integer(0);
  } catch (const ConfigError&) {
    facts.num_gpus = 0;  // reading it as a study will say what is wrong with it
  }
}

}  // namespace

std::string source_family(const std::string& source) {
  return source.substr(0, std::min(source.find(" row "), source.find(" line ")));
}

std::vector<PublishedCase> read_cases(const YamlNode& document) {
  if (!document.is_sequence()) document.fail("expected a list of cases, each a study");
  std::vector<PublishedCase> cases;
  for (const YamlNode& node : document.items()) {
    PublishedCase one{{}, "", node};
    one.facts.id = "case " + std::to_string(cases.size() + 1);
    one.facts.place = to_string(node.pos());
    try {
      if (!node.is_map()) node.fail("expected a case: a study, and what was measured");
      read_words(node, one.facts);
      read_measured(node, one.facts);
    } catch (const ConfigError& error) {
      one.problem = error.what();
    }
    cases.push_back(std::move(one));
  }
  if (cases.empty()) document.fail("expected at least one case");
  return cases;
}

std::vector<PublishedCase> read_cases(const std::string& path) {
  return read_cases(YamlNode::load_file(path));
}

}  // namespace trainyard
