// Golden vectors of tests/golden, and schedules by name.
#pragma once

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "engine/schedule/schedule_names.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard {

inline std::ifstream golden_file(const std::string& name) {
  std::ifstream file(TRAINYARD_SOURCE_DIR "/tests/golden/" + name);
  REQUIRE(file.good());
  return file;
}

inline nlohmann::json golden_json(const std::string& name) {
  std::ifstream file = golden_file(name);
  return nlohmann::json::parse(file);
}

/// Cells between commas, "" for an empty one.
inline std::vector<std::vector<std::string>> golden_csv(const std::string& name) {
  std::ifstream file = golden_file(name);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    auto& row = rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(cell);
  }
  return rows;
}

inline PipelineSchedule schedule_named(const std::string& name, int ranks, int stages_per_rank,
                                       int microbatches) {
  auto made = schedule_by_name(name, ranks, stages_per_rank, microbatches, false);
  if (const auto* reason = std::get_if<Infeasible>(&made)) FAIL(reason->reason);
  return std::get<PipelineSchedule>(made);
}

}  // namespace trainyard
