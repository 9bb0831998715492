// Pass: where samples are packed of documents, attention stays inside each, and rotary positions
// begin anew in it. Which documents a sample has is no part of the graph: kernels know it, and
// simulators, from the number of the sample (plan/documents.h).
#pragma once

#include <optional>

#include "engine/base/error.h"
#include "engine/graph/graph.h"
#include "engine/passes/training_graph.h"
#include "engine/plan/plan.h"
#include "engine/program/program.h"

namespace trainyard {

/// Says so of every flash_attention and rope.
void separate_documents(Graph& graph);

/// Why what a rank computes of its samples does not follow from their numbers: their sequences, or
/// which of them it has, are cut by a sharding of the study's own; nullopt: it does.
std::optional<Infeasible> document_obstacle(const Plan& plan, const TrainingGraph& training);

/// What calls bind such attention to; nullopt: samples are not packed.
std::optional<DocumentDraws> documents_of(const Plan& plan);

}  // namespace trainyard
