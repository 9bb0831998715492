// What each stage of a Program does with a microbatch, beside what it is made of: for `compile`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/exec/costs.h"
#include "engine/program/program.h"

namespace trainyard {

struct StageRow {
  Seconds forward = 0, backward = 0;  // of kernels; backward with what is recomputed for it
  std::vector<ValueId> receives;      // from the stage before it, forward
};

/// [stage]; of microbatches of several sizes the largest, on devices of full speed.
std::vector<StageRow> stage_rows(const Program& program, const Costs& costs, std::int64_t stages);

/// "; forward 51.0 ms, backward 105.0 ms; receives x@1 6.000 MiB", or "3 tensors, 9.000 MiB".
std::string stage_text(const Program& program, const StageRow& row);
nlohmann::ordered_json stages_json(const Program& program, const std::vector<StageRow>& rows);

}  // namespace trainyard
