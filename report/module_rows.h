// The modules of a Program as a tree: what each takes and on which stages it lies.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine/exec/costs.h"
#include "engine/program/program.h"

namespace trainyard {

/// A module with all below it, or consecutive ones of one module that lie on one stage.
struct ModuleRow {
  std::string path;  // of the first; empty: the model
  std::string last;  // path of the last, where there are several
  int depth = 0;
  std::set<std::int32_t> stages;
  Seconds forward = 0, backward = 0;  // as StageRow's, of a microbatch
  Bytes parameters = 0, activations = 0;
};

/// The tree down to modules of one stage, in the order in which the forward calls them: a row
/// stands in front of what is in it.
std::vector<ModuleRow> module_rows(const Program& program, const Costs& costs, std::int64_t stages);

nlohmann::ordered_json modules_json(const std::vector<ModuleRow>& rows);

}  // namespace trainyard
