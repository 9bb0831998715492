// What makes the numbers of a decoder, gpt or llama, impossible to build.
#pragma once

#include <optional>

#include "models/model.h"

namespace trainyard {

/// The first problem with what only decoders have: their positions, windows, caps and norms.
std::optional<ModelProblem> find_decoder_problem(const ModelConfig& config);

}  // namespace trainyard
