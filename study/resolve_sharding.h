// What a study gives of its sharding, held against the model.
#pragma once

#include "engine/cost/software_profile.h"
#include "engine/graph/graph.h"
#include "study/study.h"

namespace trainyard {

/// Writes out what `sharding:` leaves to the method: every axis of the mesh, in every spec. Throws
/// ConfigError where a pattern matches nothing, or a tensor has no such dims. Nothing happens where
/// the method cannot split the model: compile() says why.
void resolve_sharding(Study& study, const Graph& model, const SoftwareProfile& software);

}  // namespace trainyard
