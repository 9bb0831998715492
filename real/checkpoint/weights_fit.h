// Whether weights that were stored are those of a study's model: none missing, none left over.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "real/checkpoint/checkpoint.h"
#include "real/checkpoint/hugging_face_weights.h"
#include "study/study.h"

namespace trainyard {

/// Throws ConfigError at model.layers, or at model where it is more than layers, with what
/// `checkpoint` lacks, has beside, and has in other shapes. `way_out`: what else may be done.
void check_weights_fit(const Study& study, const Graph& graph, const Checkpoint& checkpoint,
                       const std::string& way_out);

/// The same of what `weights`, read from `path`, has beside the model, and, at the key of a
/// config.json beside them, of what that says otherwise and no shape shows. Answers warnings: about
/// heads that the weights have for other tasks, numbers of that config.json that a study may mean
/// to change, such as the base of rotary angles, and a config.json that was not compared.
std::vector<std::string> check_weights_fit(const Study& study, const std::string& path,
                                           const HuggingFaceWeights& weights);

}  // namespace trainyard
