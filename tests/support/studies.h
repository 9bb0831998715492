// From a study's text to what the passes make of it, one pass at a time: what tests of the passes
// and of the whole path begin with.
#pragma once

#include <string>
#include <vector>

#include "app/prepare.h"
#include "engine/partition/stage_partition.h"
#include "engine/passes/differentiate.h"
#include "engine/schedule/stage_form.h"
#include "study/compile_study.h"

namespace trainyard {

/// Reads `yaml` as the file `name`, with the profiles and topologies of this repository. Throws
/// ConfigError as `trainyard simulate` would.
Prepared prepare_text(const std::string& yaml, const std::vector<std::string>& sets = {},
                      const std::string& name = "study.yaml");

/// The graph of one tensor-parallel rank: kernels selected, sharded. These throw std::runtime_error
/// where a pass answers Infeasible.
Graph sharded_graph(const Prepared& prepared);
Numbered<StageForm> forms_of(const Prepared& prepared);  // [stage]
StagedGraph staged_graph(const Prepared& prepared);
TrainingGraph training_graph(const Prepared& prepared);  // differentiated, recompute in
Program compiled_program(const Prepared& prepared);

}  // namespace trainyard
