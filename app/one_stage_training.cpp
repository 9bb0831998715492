#include "app/one_stage_training.h"

#include <utility>
#include <variant>

#include "engine/passes/one_stage_graph.h"
#include "study/study_origin.h"

namespace trainyard {

TrainingGraph one_stage_training(const Prepared& prepared) {
  auto made = one_stage_graph(prepared.model, prepared.study, prepared.software);
  if (const auto* reason = std::get_if<Infeasible>(&made))
    fail_at(prepared.study, reason->key.empty() ? "partition" : reason->key, reason->reason);
  return std::get<TrainingGraph>(std::move(made));
}

}  // namespace trainyard
