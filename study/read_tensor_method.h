// How a study splits layers: parallel.tensor_method, and chunks of a microbatch that hide its
// collectives.
#pragma once

#include <string>

#include "engine/plan/plan.h"
#include "study/study_section.h"

namespace trainyard {

/// `tensor_method: atp`, or `tensor_method: {name: atp, mesh: [2, 4]}`. Read behind `tensor` and
/// `tensor_overlap`.
void read_tensor_method(Section& parallel, ParallelConfig& config);

/// `tensor_overlap: block`, or `tensor_overlap: {scope: block, chunks: 4}`.
void read_tensor_overlap(Section& parallel, std::string& text);

}  // namespace trainyard
