// A list of published runs: each a study in the words of docs/contract.md, section 2, "Cases", with
// what was measured of it beside it. This file reads the annotations; the study stays a node, for
// read_study_node().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/validate/memory_kind.h"
#include "study/yaml_reader.h"

namespace trainyard {

/// What a case says beside its study. Framework, device and GPUs are as written, "" or 0 where they
/// are not plain: a case that cannot be read as a study still has a place in every table.
struct CaseFacts {
  std::string id;     // "case 3" where it has none; counted from 1
  std::string place;  // file:line:column
  std::string source;
  std::string family;   // source_family(source)
  std::string suspect;  // why the row should not be scored; "": it should
  std::string era;
  std::string framework;
  std::string framework_version;
  std::string device;
  std::int64_t num_gpus = 0;
  std::optional<Seconds> iteration_time;  // measured
  std::optional<double> peak_memory_gib;  // measured, of the fullest rank
  std::optional<MemoryKind> memory_kind;  // of that figure; nullopt: the source does not say
};

struct PublishedCase {
  CaseFacts facts;
  std::string problem;  // why nothing can be compared; "": facts.iteration_time or memory is there
  YamlNode node;
};

/// `source` up to " row " or " line ": what is left out together when a fit is tested.
std::string source_family(const std::string& source);

/// Throws ConfigError where the file is no YAML list. What is wrong with one case is its `problem`.
std::vector<PublishedCase> read_cases(const std::string& path);
std::vector<PublishedCase> read_cases(const YamlNode& document);

}  // namespace trainyard
