// What each stage of a Program does with a microbatch and what it holds, beside what it is made of.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/exec/costs.h"
#include "engine/passes/pass_log.h"
#include "engine/program/program.h"
#include "study/study.h"

namespace trainyard {

struct StageRow {
  /// A tensor that the stage receives for its forward.
  struct Crossing {
    std::string value;
    Bytes bytes = 0;        // of a rank
    std::int32_t from = 0;  // the pipeline rank that sends it
  };
  std::string what;  // "embedding, layers 0 to 2", its modules
  std::int32_t pipeline_rank = 0;
  int replicas = 1;
  Seconds forward = 0, backward = 0;  // of kernels; backward with what is recomputed for it
  Bytes parameters = 0;               // that its forward reads, on a rank
  Bytes activations = 0;              // that a microbatch's forward leaves to its backward there
  std::vector<Crossing> receives;
};

/// [stage]; of microbatches of several sizes the largest, on devices of full speed.
std::vector<StageRow> stage_rows(const Program& program, const Costs& costs, const PassLog& log,
                                 const Study& study);

/// "; forward 51.0 ms, backward 105.0 ms; receives x@1 6.000 MiB", or "3 tensors, 9.000 MiB".
std::string stage_text(const StageRow& row);
nlohmann::ordered_json stages_json(const std::vector<StageRow>& rows);

}  // namespace trainyard
