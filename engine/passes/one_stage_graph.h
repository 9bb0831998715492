// A model as planners of stages weigh it: not yet cut.
#pragma once

#include <variant>

#include "engine/base/error.h"
#include "engine/cost/software_profile.h"
#include "engine/graph/graph.h"
#include "engine/passes/training_graph.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// The instructions of the plan's largest microbatch, all in one stage, on a rank of its tensor and
/// context groups. What is recomputed is so as the plan says; everything where its stages differ in
/// that. `model`: the graph of plan.model.
std::variant<TrainingGraph, Infeasible> one_stage_graph(const Graph& model, Plan plan,
                                                        const SoftwareProfile& software);

}  // namespace trainyard
