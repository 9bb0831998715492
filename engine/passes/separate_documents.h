// Pass: where samples are packed of documents, attention stays inside each, and rotary positions
// begin anew in it. Which documents a sample has is no part of the graph: kernels know it, and
// simulators, from the number of the sample (plan/documents.h).
#pragma once

#include <optional>

#include "engine/graph/graph.h"
#include "engine/plan/plan.h"
#include "engine/program/program.h"

namespace trainyard {

/// Says so of every flash_attention and rope.
void separate_documents(Graph& graph);

/// What calls bind such attention to; nullopt: samples are not packed.
std::optional<DocumentDraws> documents_of(const Plan& plan);

}  // namespace trainyard
