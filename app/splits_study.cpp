#include "app/splits_study.h"

#include <algorithm>

#include "app/analytic_step.h"
#include "app/choose_rotor.h"
#include "engine/schedule/schedule_names.h"

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

}  // namespace trainyard
