// How a model is cut: the stages, the modules in them, and who said so.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "report/module_rows.h"
#include "report/stage_table.h"

namespace trainyard {

struct PartitionView {
  std::string chosen;                // where the cuts come from: the study's line, or why these
  std::vector<std::string> planned;  // Study::planned
  std::vector<StageRow> stages;
  std::vector<ModuleRow> modules;
};

/// `log`: of the compile() that made `program`.
PartitionView partition_view(const Program& program, const Costs& costs, const PassLog& log,
                             const Study& study);

/// Adds the keys `partition`, `stages` and, where a planner said something, `planned`.
void add_json(const PartitionView& view, nlohmann::ordered_json& out);

}  // namespace trainyard
