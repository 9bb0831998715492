#include "app/splits_study.h"

#include <algorithm>
#include <vector>

#include "app/analytic_step.h"
#include "app/choose_rotor.h"
#include "engine/passes/given_sharding.h"
#include "engine/passes/plan_map.h"
#include "engine/passes/select_kernels.h"
#include "engine/schedule/schedule_names.h"
#include "study/study_origin.h"

namespace trainyard {

Bytes budget_of_splits(const Prepared& prepared) {
  const Bytes map = prepared.study.parallel.tensor_memory,
              rotor = prepared.study.recompute.memory_budget;
  if (map > 0 && rotor > 0) return std::min(map, rotor);
  return map + rotor > 0 ? map + rotor : capacity_of(prepared);
}

Study evaluated_study(Study study) {
  if (study.partition.chooses_cuts()) study.partition = {};
  if (is_searched_schedule(study.schedule.method) && study.schedule.rows.empty())
    study.schedule = {};
  if (study.recompute.method == RecomputeConfig::Method::kStageAware && !study.recompute.first)
    study.recompute.first = 0;
  if (leaves_to_rotor(study)) study.recompute = {};
  return study;
}

Study one_device(Study study) {
  study.parallel.tensor = 1;
  study.parallel.tensor_mesh = {};
  study.parallel.tensor_ops = {};
  study.parallel.tensor_method = ParallelConfig{}.tensor_method;
  study.recompute = {};
  study.offload = {};
  study.sharding = {};
  // What ops take in proportion: neither casts nor documents change with how they are split.
  study.training.fp8 = {};
  study.documents = {};
  return study;
}

void check_listed_ops(const Prepared& prepared) {
  const Study& study = prepared.study;
  const Graph kernels = select_kernels(prepared.model, prepared.software,
                                       study.training.flash_attention == FlashAttention::kOn);
  std::vector<ConfigError> errors;
  for (const GivenMistake& one : find_map_mistakes(kernels, map_plan(study.parallel)))
    errors.push_back(error_at(study, one.key, one.problem));
  if (!errors.empty()) throw ConfigError(errors);
}

}  // namespace trainyard
